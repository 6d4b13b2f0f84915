"""Records which instructions of XLA's programs run in a call on JAX, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax._src.lib import _profiler  # the public profiler writes its trace to files

from sut.evidence import hlo, jax_programs
from sut.evidence.wall_time import Trace, Window
from sut.evidence.xla_timeline import DEVICE, STREAM, WINDOW, Event, Program, trace_of


def record(call: Callable[[Window], None]) -> Trace:
    """Run the call under the profiler. It enters the given context around the steps to look at."""
    options = _profiler.ProfileOptions()
    options.python_tracer_level = 0
    session = _profiler.ProfilerSession(options)
    call(lambda: jax.profiler.TraceAnnotation(WINDOW))
    jax_programs.synchronise()
    data = session.stop_and_get_profile_data()
    return trace_of("jax.profiler", _events(data), _programs())


def _events(data: Any) -> Iterator[Event]:
    """Yield the events of JAX's `ProfileData`."""
    for plane in data.planes:
        on_device = plane.name.startswith(DEVICE)
        for number, line in enumerate(plane.lines):
            if on_device and not line.name.startswith(STREAM):
                continue
            for event in line.events:
                lane = (plane.name, number)
                facts = dict(event.stats)
                yield Event.of(
                    event.name, lane, event.start_ns, event.duration_ns, facts, on_device
                )


def _programs() -> dict[str, list[Program]]:
    """Return name of a module → its programs, for all programs of this process."""
    programs: dict[str, list[Program]] = {}
    for executable in jax.devices()[0].client.live_executables():
        for module in executable.hlo_modules():
            classes = hlo.classes(hlo.read(module.to_string()))
            number = hlo.number_of(module.as_serialized_hlo_module_proto())
            programs.setdefault(module.name, []).append(Program(classes, number))
    return programs
