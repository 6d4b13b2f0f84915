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
                facts = dict(event.stats)
                yield Event(
                    name=event.name,
                    lane=(plane.name, number),
                    start_ns=event.start_ns,
                    end_ns=event.start_ns + event.duration_ns,
                    on_device=on_device,
                    instruction=str(facts.get("hlo_op", "")),
                    module=str(facts.get("hlo_module", "")),
                    program=facts.get("program_id"),
                    run=facts.get("run_id"),
                )


def _programs() -> dict[str, list[Program]]:
    """Return name of a module → its programs, for all programs of this process."""
    programs: dict[str, list[Program]] = {}
    for executable in jax.devices()[0].client.live_executables():
        for module in executable.hlo_modules():
            number = hlo.number_of(module.as_serialized_hlo_module_proto())
            program = Program(hlo.classes(hlo.read(module.to_string())), number)
            programs.setdefault(module.name, []).append(program)
    return programs
