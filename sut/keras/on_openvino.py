"""Keras on OpenVINO, Keras' backend for inference only. The first call traces the model, and
OpenVINO compiles it as a whole for the processor. The program takes batches of any size.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import openvino

from sut.contract import Call, Unsupported
from sut.evidence import compilations, openvino_flops, openvino_programs
from sut.evidence.openvino_programs import about, matrix_flops, peak_device_bytes, product

__all__ = [
    "EXECUTIONS",
    "about",
    "configure",
    "matrix_flops",
    "peak_device_bytes",
    "product",
    "synchronise",
    "watch",
]

EXECUTIONS = ("graph",)
_HINTS = {"float32": "f32", "bfloat16": "bf16"}
_own_compile = openvino.Core.compile_model
_own_call = openvino.CompiledModel.__call__
_counts = Counter[str]()


def configure(device: str, wanted: str) -> None:
    """Choose the precision of all programs that are compiled from here on, and count them. Raises
    Unsupported for another device than the processor.

    Without a choice OpenVINO computes in bfloat16 if the processor has instructions for it.
    """
    if device != "cpu":
        raise Unsupported(f"--device {device}: Keras runs OpenVINO only on the processor")
    _counts.clear()

    def compile_model(
        core: Any, model: Any, name: Any = None, config: Any = None, **more: Any
    ) -> Any:
        _counts["compilations"] += 1
        hint = {openvino_programs.PRECISION: _HINTS[wanted], **(config or {})}
        program = _own_compile(core, model, name, hint, **more)
        program.flops_of_row = openvino_flops.of_row(model)
        return program

    openvino.Core.compile_model = compile_model
    compilations.count_by(lambda: _counts["compilations"])


def synchronise(model: Any) -> None:
    """Do nothing: the processor is done on return."""


def watch(model: Any, call: Call) -> dict[str, Any]:
    """Return OpenVINO's observations of the call. `graphs`: compiled programs of the model; Keras
    keeps one. `regions`: how often the call runs a program. `product_bits`: bits of the operands of
    its layers that multiply matrices → their number. `flops`: floating-point operations of the
    products; None: not known. `xla_programs`: OpenVINO contains no XLA.
    """
    compilations_before = _counts["compilations"]
    flops = list[float]()

    def counted(program: Any, inputs: Any, *arguments: Any, **named: Any) -> Any:
        arrays = inputs.values() if isinstance(inputs, Mapping) else inputs
        flops.append(len(next(iter(arrays))) * program.flops_of_row)
        return _own_call(program, inputs, *arguments, **named)

    openvino.CompiledModel.__call__ = counted
    try:
        call()
    finally:
        openvino.CompiledModel.__call__ = _own_call
    total = sum(flops)
    program = model.ov_compiled_model
    return {
        "graphs": 1 if program is not None else 0,
        "regions": len(flops),
        "xla_programs": 0,
        "compiled_in_call": _counts["compilations"] - compilations_before,
        "flops": None if math.isnan(total) else int(total),
        **openvino_programs.detail(program),
    }
