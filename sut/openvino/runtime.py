"""Compiled programs of OpenVINO, and what they report. It has the functions that
`sut.evidence.backend_evidence` needs of a backend.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import openvino

from sut import converted_models
from sut.contract import Batch, Call, Unsupported, Workload
from sut.devices import HOST
from sut.evidence import openvino_flops, openvino_programs, supported
from sut.evidence.openvino_programs import about, matrix_flops, peak_device_bytes, product

__all__ = ["about", "matrix_flops", "peak_device_bytes", "product"]

DEVICE = "CPU"
_THREADS = "INFERENCE_NUM_THREADS"
DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i8": "int8",
    "u8": "int8",
    "i4": "int4",
    "u4": "int4",
}
"""The types of weights. Constants of other types are shapes and indices."""
REPORTED = (
    "EXECUTION_DEVICES",
    "EXECUTION_MODE_HINT",
    "INFERENCE_PRECISION_HINT",
    "KV_CACHE_PRECISION",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE",
    "PERFORMANCE_HINT",
    "NUM_STREAMS",
    "INFERENCE_NUM_THREADS",
)
"""The settings of a compiled program that the evidence contains."""
STREAMS = "streams"
"""The setting of `--tuned` that gives each thread a stream of its own (`sut/tuning.toml`)."""
_own_call = openvino.CompiledModel.__call__
_own_start = openvino.InferRequest.start_async


def configure(workload: Workload) -> None:
    """Raises Unsupported if the runtime has no way for this workload."""
    supported.check(workload, f"{workload.model} on OpenVINO", ("runtime",))
    if workload.device != HOST:
        raise Unsupported(f"--device {workload.device}: this OpenVINO is measured on processors")
    converted_models.count()
    openvino_programs.use(settings())


def streams(workload: Workload) -> int:
    """Return how many batches run at a time."""
    is_each = workload.settings.get(STREAMS) == "each-thread"
    return len(os.sched_getaffinity(0)) if is_each else 1


def settings() -> dict[str, Any]:
    """Return the settings of all programs, by OpenVINO's names.

    Without the hint ACCURACY the cache of a float32 model is rounded to 16 or 8 bits, and
    activations that multiply weights of 8 bits are, too. Without a hint of the precision OpenVINO
    computes in bfloat16 if the processor has instructions for it. Its own default for threads is
    the number of processors of this process.
    """
    return {
        "EXECUTION_MODE_HINT": "ACCURACY",
        "INFERENCE_PRECISION_HINT": "f32",
        "KV_CACHE_PRECISION": "f32",
        _THREADS: len(os.sched_getaffinity(0)),
    }


class Program:
    """A compiled model that takes and returns arrays by name.

    Attributes:
        held: dtype → elements of its weights.
        computes: the dtype in which it computes, as a tuple of one.
    """

    def __init__(self, path: Path, workload: Workload):
        model = openvino.Core().read_model(path)
        self.model = model
        self.held = held(model)
        given = settings()
        if streams(workload) > 1:
            given |= {"PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": streams(workload)}
        self.compiled = openvino.Core().compile_model(model, DEVICE, given)
        self.idle: list[openvino.InferRequest] = []
        hint = self.compiled.get_property("INFERENCE_PRECISION_HINT")
        self.computes = (DTYPES[hint.get_type_name()],)
        self.names = [each.any_name for each in model.outputs]

    def __call__(self, batch: Batch) -> Batch:
        return dict(zip(self.names, self.compiled(dict(batch)).values(), strict=True))

    def start(self, batch: Batch) -> Begun:
        """Begin a run in a stream that is free."""
        request = self.idle.pop() if self.idle else self.compiled.create_infer_request()
        request.start_async(dict(batch))
        return Begun(self, request)


class Begun:
    """A run that has begun."""

    def __init__(self, program: Program, request: openvino.InferRequest):
        self.program = program
        self.request = request

    def wait(self) -> Batch:
        """Return the outputs by name, once they are there."""
        self.request.wait()
        arrays = [np.array(each.data) for each in self.request.output_tensors]
        self.program.idle.append(self.request)
        return dict(zip(self.program.names, arrays, strict=True))


def held(model: Any) -> Counter[str]:
    """Return dtype → elements of the weights of a model that was read and not compiled."""
    found: Counter[str] = Counter()
    operations = model.get_ordered_ops()
    scales = {name for each in operations for name in _scales(each)}
    for each in operations:
        if each.get_type_name() == "Constant" and each.get_friendly_name() not in scales:
            dtype = DTYPES.get(each.get_element_type().get_type_name())
            if dtype:
                found[dtype] += int(np.prod(each.get_output_shape(0), dtype=np.int64))
    return found


def _scales(operation: Any) -> list[str]:
    """The names of the scale and the zero points of quantised weights, if this operation multiplies
    the weights by their scale: (weights - zero points) × scale.
    """
    inputs = [each.get_node() for each in operation.input_values()]
    if operation.get_type_name() != "Multiply" or inputs[1].get_type_name() != "Constant":
        return []
    names = [inputs[1].get_friendly_name()]
    weights = inputs[0]
    if weights.get_type_name() == "Subtract":
        weights, zeros = (each.get_node() for each in weights.input_values())
        names.append(_constant(zeros).get_friendly_name())
    integers = _constant(weights).get_element_type()
    is_quantized = weights.get_type_name() == "Convert" and integers.is_integral()
    return names if is_quantized else []


def _constant(convert: Any) -> Any:
    """What a conversion of the type converts."""
    is_convert = convert.get_type_name() == "Convert"
    return convert.input_value(0).get_node() if is_convert else convert


def watch(programs: list[Program], call: Call) -> dict[str, Any]:
    """Return OpenVINO's observations of a call. `graphs`: the compiled programs of the SUT.
    `regions`: runs of programs. `flops`: floating-point operations of their products, by the shapes
    of the inputs; None: not known. `nodes_elsewhere`: layers of programs on another device.
    """
    runs: list[tuple[Any, tuple[tuple[str, tuple[int, ...]], ...]]] = []

    def counted(compiled: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
        runs.append((compiled, tuple((name, each.shape) for name, each in inputs.items())))
        return _own_call(compiled, inputs, *rest, **named)

    def started(request: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
        runs.append((None, tuple((name, each.shape) for name, each in inputs.items())))
        return _own_start(request, inputs, *rest, **named)

    openvino.CompiledModel.__call__ = counted
    openvino.InferRequest.start_async = started
    try:
        call()
    finally:
        openvino.CompiledModel.__call__ = _own_call
        openvino.InferRequest.start_async = _own_start
    detail = _merged([openvino_programs.detail(each.compiled) for each in programs])
    return {
        "graphs": len(programs),
        "regions": len(runs),
        "flops": _flops(programs, runs),
        "nodes_elsewhere": sum(_elsewhere(each.compiled) for each in programs),
        **detail,
        "openvino_settings": reported(programs[0].compiled),
        "settings": _switches(programs[0].compiled),
    }


def _flops(programs: list[Program], runs: list[Any]) -> int | None:
    # Only a SUT with one program has several streams.
    models = {id(each.compiled): each.model for each in programs} | {id(None): programs[0].model}
    total = 0.0
    for (compiled, shapes), times in Counter((id(one), shapes) for one, shapes in runs).items():
        total += times * openvino_flops.of_shapes(models[compiled], dict(shapes))
    return None if math.isnan(total) else int(total)


def _merged(details: list[dict[str, Any]]) -> dict[str, Any]:
    """The facts of the first program, with the products of all."""
    merged = dict(details[0]) if details else {}
    for name in ("product_bits", "kernels"):
        merged[name] = dict(sum((Counter(each[name]) for each in details), Counter[str]()))
    return merged


def _elsewhere(compiled: Any) -> int:
    """The number of layers that another device runs."""
    if list(compiled.get_property("EXECUTION_DEVICES")) == [DEVICE]:
        return 0
    return len(compiled.get_runtime_model().get_ordered_ops())


def reported(compiled: Any) -> dict[str, str]:
    """Return the settings of a compiled program as OpenVINO reports them."""
    return {name: _plain(compiled.get_property(name)) for name in REPORTED}


def _switches(compiled: Any) -> dict[str, str]:
    """Return the switches of `--tuned` as a program has them."""
    has_each = 1 < compiled.get_property("NUM_STREAMS") == compiled.get_property(_THREADS)
    return {STREAMS: "each-thread"} if has_each else {}


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, openvino.Type):
        return str(value.get_type_name())
    return str(getattr(value, "name", value))
