"""The floating-point operations of the matrix products of a traced TensorFlow function, from the
shapes with which TensorFlow traced it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan, prod
from typing import Any

from sut.evidence import product_flops

_LOOPS = ("While", "StatelessWhile")
_TRANSPOSED = ("transpose_a", "adj_x")


def of(graph: Any) -> tuple[float, bool]:
    """(The operations of a run of the function with this `FuncGraph`, with those of the functions
    that it calls; whether it multiplies in a loop.) Each branch counts, and one round of a loop,
    because the rounds are not known. NaN: a shape is not known.
    """
    total: float = 0
    loops = False
    for operation in graph.get_operations():
        formula = _FORMULAS.get(operation.type)
        if formula:
            shapes = [tensor.shape for tensor in (*operation.inputs, *operation.outputs)]
            known = all(shape.is_fully_defined() for shape in shapes)
            total += formula(operation, *map(tuple, shapes)) if known else nan
        for name in _called(operation, graph):
            inner, has_loops = of(graph._functions[name].graph)
            total += inner
            loops |= has_loops or bool(inner and operation.type in _LOOPS)
    return total, loops


def _called(operation: Any, graph: Any) -> list[str]:
    """The names of the functions that an operation calls."""
    names = []
    for attribute in operation.node_def.attr.values():
        functions = [attribute.func, *attribute.list.func]
        names += [each.name for each in functions if each.name in graph._functions]
    return names


def _matmul(operation: Any, first: tuple[int, ...], *shapes: tuple[int, ...]) -> int:
    is_transposed = any(_flag(operation, name) for name in _TRANSPOSED)
    return 2 * prod(shapes[-1]) * first[-2 if is_transposed else -1]


def _flag(operation: Any, name: str) -> bool:
    return name in operation.node_def.attr and bool(operation.get_attr(name))


def _einsum(operation: Any, *shapes: tuple[int, ...]) -> int:
    return product_flops.einsum(operation.get_attr("equation").decode(), *shapes)


def _convolution(_: Any, __: Any, kernel: tuple[int, ...], outputs: tuple[int, ...]) -> int:
    """The kernel is [..., channels of a group, outputs]."""
    return 2 * prod(outputs) * prod(kernel[:-1])


def _transposed_convolution(_: Any, __: Any, kernel: tuple[int, ...], *shapes: Any) -> int:
    """The kernel is [..., outputs, channels], and each input is multiplied by all outputs."""
    return 2 * prod(shapes[0]) * prod(kernel[:-1])


def _depthwise(_: Any, __: Any, kernel: tuple[int, ...], outputs: tuple[int, ...]) -> int:
    return 2 * prod(outputs) * prod(kernel[:-2])


_FORMULAS: Mapping[str, Any] = {
    "MatMul": _matmul,
    "BatchMatMul": _matmul,
    "BatchMatMulV2": _matmul,
    "BatchMatMulV3": _matmul,
    "Einsum": _einsum,
    "Conv2D": _convolution,
    "Conv3D": _convolution,
    "Conv2DBackpropInput": _transposed_convolution,
    "DepthwiseConv2dNative": _depthwise,
}
"""Operator → (operation, the shapes of its inputs and of its output) → its operations: two for each
multiplication.
"""
PRODUCTS = tuple(_FORMULAS)
