"""Records which operators of TensorFlow, and which instructions of its XLA programs, run in a call,
and when, with TensorFlow's profiler.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.compiler.xla.service.hlo_pb2 import HloProto

# The public profiler has no options for these levels.
from tensorflow.python.profiler.internal._pywrap_profiler import ProfilerSession
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

from sut.evidence import hlo, operation_classes
from sut.evidence.wall_time import Trace, Window
from sut.evidence.xla_timeline import DEVICE, STREAM, WINDOW, Event, Program, trace_of

# At level 2 the executor marks each operator as `scope/name:Type`.
_OPTIONS = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 1}
_OPERATOR = re.compile(r"(?P<scope>[\w./\-<>^]+):(?P<type>\w+)")
_FILE = "*.xplane.pb"
_METADATA = "/host:metadata"


def record(call: Callable[[Window], None]) -> Trace:
    """Run the call under the profiler. It enters the given context around the steps to look at."""
    session = ProfilerSession()
    with tempfile.TemporaryDirectory() as folder:
        session.start(folder, _OPTIONS)
        call(lambda: tf.profiler.experimental.Trace(WINDOW))
        tf.test.experimental.sync_devices()
        session.export_to_tb()
        (file,) = Path(folder).rglob(_FILE)
        space = XSpace.FromString(file.read_bytes())
    return trace_of("tf.profiler", _events(space), _programs(space), _class_of)


def _class_of(name: str) -> str:
    """Return the class of an operator, from the name of its event."""
    found = _OPERATOR.fullmatch(name)
    if not found:
        return ""
    return operation_classes.of_kernel("tensorflow", [found["type"]], [found["scope"]])


def _events(space: Any) -> Iterator[Event]:
    """Yield the events of a profile."""
    for plane in space.planes:
        on_device = plane.name.startswith(DEVICE)
        for line in plane.lines:
            if on_device and not line.name.startswith(STREAM):
                continue
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                # The facts of an event by their names.
                facts = {}
                for stat in event.stats:
                    kind = stat.WhichOneof("value")
                    value = getattr(stat, kind) if kind else None
                    if kind == "ref_value":
                        value = plane.stat_metadata[value].name
                    facts[plane.stat_metadata[stat.metadata_id].name] = value
                start_ns = line.timestamp_ns + event.offset_ps / 1e3
                lane = (plane.name, line.id)
                yield Event.of(name, lane, start_ns, event.duration_ps / 1e3, facts, on_device)


def _programs(space: Any) -> dict[str, list[Program]]:
    """Return name of a module → its programs, for the programs that the profile contains."""
    programs: dict[str, list[Program]] = {}
    for plane in space.planes:
        if plane.name != _METADATA:
            continue
        for metadata in plane.event_metadata.values():
            for stat in metadata.stats:
                module = HloProto.FromString(stat.bytes_value).hlo_module
                program = Program(hlo.classes(_read(module)), module.id)
                programs.setdefault(module.name, []).append(program)
    return programs


def _read(module: Any) -> hlo.Program:
    """Return the computations of a module."""
    names = {each.id: each.name for each in module.computations}
    program = {}
    for computation in module.computations:
        instructions = {}
        for each in computation.instructions:
            fuses = each.opcode == hlo.FUSION and each.called_computation_ids
            instructions[each.name] = hlo.Instruction(
                opcode=each.custom_call_target or each.opcode,
                scope=each.metadata.op_name,
                fused=names[each.called_computation_ids[0]] if fuses else "",
            )
        program[computation.name] = instructions
    return program
