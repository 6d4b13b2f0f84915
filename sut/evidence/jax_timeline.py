"""Records which instructions of XLA's programs run in a call on JAX, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax._src.lib import _jax, _profiler  # the public profiler writes its trace to files

from sut.evidence import hlo, jax_programs
from sut.evidence.wall_time import Trace, Window
from sut.evidence.xla_timeline import DEVICE, STREAM, WINDOW, Event, Program, trace_of

_ID_FIELD = 5 * 8  # field 5, a number
_WITH_LENGTH = 2  # the wire type of a field that begins with its length. Others are numbers here


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
    """Return name of a module → its programs, for all programs of this process.

    XLA's costs have the body of a loop once, so the bytes of a program with a loop are not known.
    """
    client = jax.devices()[0].client
    programs: dict[str, list[Program]] = {}
    for executable in client.live_executables():
        for module in executable.hlo_modules():
            found = hlo.read(module.to_string())
            moved = None
            if not hlo.has_loop(found):
                costs = _jax.hlo_module_cost_analysis(client, module)
                moved = costs.get("bytes accessed")
            program = Program(hlo.classes(found), moved, _number(module))
            programs.setdefault(module.name, []).append(program)
    return programs


def _number(module: Any) -> int:
    """Return XLA's number of a program, the field `id` of its `HloModuleProto`.

    JAX has no class for this message, so its fields are read one after another.
    """
    message = module.as_serialized_hlo_module_proto()
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        value, place = _varint(message, place)
        if key == _ID_FIELD:
            return value
        if key % 8 == _WITH_LENGTH:
            place += value
    return 0


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Return the number at this place of a protobuf message, and the place after it."""
    number = shift = 0
    while True:
        byte = message[place]
        place += 1
        number += (byte % 128) << shift
        shift += 7
        if byte < 128:
            return number, place
