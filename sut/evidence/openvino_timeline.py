"""Records which layers of OpenVINO's programs run in a call, and for how long, with its performance
counters.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import openvino

from sut.contract import Unsupported
from sut.evidence import operation_classes, wall_time
from sut.evidence.wall_time import Span, Trace, Window

_COUNTERS = "PERF_COUNT"
_NOTE = "OpenVINO counts in every call, so the step without the profiler has this cost, too"
_NO_LAYERS = (
    "profile: OpenVINO counts the layers of programs that are called one at a time. LLMPipeline of"
    " openvino-genai and several streams show none: take native-torch-eager, or leave --tuned out"
)
_clock = time.perf_counter_ns
_calls: list[tuple[int, list[Any]]] = []  # (start, the counters of the layers) of each call


def prepare() -> None:
    """Let all programs that are compiled from here on count. Must run before the SUT is loaded."""
    own_compile = openvino.Core.compile_model
    own_call = openvino.CompiledModel.__call__

    def compile_model(
        core: Any, model: Any, name: Any = None, config: Any = None, **more: Any
    ) -> Any:
        return own_compile(core, model, name, {**(config or {}), _COUNTERS: True}, **more)

    def call(program: Any, *arguments: Any, **named: Any) -> Any:
        start_ns = _clock()
        outputs = own_call(program, *arguments, **named)
        _calls.append((start_ns, program._infer_request.get_profiling_info()))
        return outputs

    openvino.Core.compile_model = compile_model
    openvino.CompiledModel.__call__ = call


def record(call: Callable[[Window], None]) -> Trace:
    """Run the call. It enters the given context around the steps to look at.

    The counters have no beginnings, so the layers of a call are placed one after another.
    """
    _calls.clear()
    bounds = wall_time.run(call)
    if not _calls:
        raise Unsupported(_NO_LAYERS)
    spans: list[Span] = []
    for start_ns, layers in _calls:
        for layer in layers:
            if layer.status != openvino.ProfilingInfo.Status.EXECUTED:
                continue
            end_ns = start_ns + layer.real_time.total_seconds() * 1e9
            kind = operation_classes.of("openvino", layer.node_type)
            spans.append(Span("program", layer.node_type, kind, start_ns, end_ns))
            start_ns = end_ns
    return Trace("OpenVINO's counters", *bounds, spans, notes=(_NOTE,))
