"""The floating-point operations of the matrix products of a traced TensorFlow function, from the
shapes with which TensorFlow traced it.
"""

from __future__ import annotations

from math import nan, prod
from typing import Any

from sut.evidence import product_flops

_LOOPS = ("While", "StatelessWhile")
_TRANSPOSED = ("transpose_a", "adj_x")
_CONVOLUTIONS = {
    "Conv2D": (-1, 1),
    "Conv3D": (-1, 1),
    "Conv2DBackpropInput": (2, 1),
    "DepthwiseConv2dNative": (-1, 2),
}
"""Operator → the place of the outputs, or of the inputs of a transposed one, and how many of the
kernel's last axes are not multiplied for each of them. The kernel is [..., channels of a group,
outputs], and transposed [..., outputs, channels].
"""
PRODUCTS = (
    "MatMul",
    "BatchMatMul",
    "BatchMatMulV2",
    "BatchMatMulV3",
    "Einsum",
    *_CONVOLUTIONS,
)
"""The operators that multiply."""


def of(graph: Any) -> tuple[float, bool]:
    """(The operations of a run of the function with this `FuncGraph`, with those of the functions
    that it calls; whether it multiplies in a loop.) Each branch counts, and one round of a loop,
    because the rounds are not known. NaN: a shape is not known.
    """
    total: float = 0
    loops = False
    for operation in graph.get_operations():
        if operation.type in PRODUCTS:
            total += _of(operation)
        # The names of the functions that an operation calls.
        names = []
        for attribute in operation.node_def.attr.values():
            functions = [attribute.func, *attribute.list.func]
            names += [each.name for each in functions if each.name in graph._functions]
        for name in names:
            inner, has_loops = of(graph._functions[name].graph)
            total += inner
            loops |= has_loops or bool(inner and operation.type in _LOOPS)
    return total, loops


def _of(operation: Any) -> float:
    """Return the operations of an operator: two for each multiplication. NaN: a shape is not
    known.
    """
    shapes = [tensor.shape for tensor in (*operation.inputs, *operation.outputs)]
    if not all(shape.is_fully_defined() for shape in shapes):
        return nan
    known = [tuple(shape) for shape in shapes]
    if operation.type in _CONVOLUTIONS:
        place, axes = _CONVOLUTIONS[operation.type]
        return 2 * prod(known[place]) * prod(known[1][:-axes])
    if operation.type == "Einsum":
        return product_flops.einsum(operation.get_attr("equation").decode(), *known)
    names = [name for name in _TRANSPOSED if name in operation.node_def.attr]
    transposed = any(operation.get_attr(name) for name in names)
    return product_flops.matmul(known[0], known[-1], transposed=transposed)
