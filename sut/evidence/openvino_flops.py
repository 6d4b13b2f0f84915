"""The floating-point operations of the matrix products of an OpenVINO model, from its shapes."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan, prod
from typing import Any

from sut.evidence import product_flops

Shape = tuple[int, ...]
_INNER = ("Loop", "TensorIterator", "If")


def of_row(model: Any) -> float:
    """Return the operations for one row of a batch, the first axis of its inputs. NaN: not known,
    because another axis has any length, or because the model has loops or branches.
    """
    shapes = [each.partial_shape for each in model.inputs]
    rows, of_a_row = shapes[0][0], [list(shape)[1:] for shape in shapes]
    if any(side.is_dynamic for sides in of_a_row for side in sides):
        return nan
    if not rows.is_dynamic:
        return sum(map(_of, model.get_ordered_ops())) / rows.get_length()
    model = model.clone()
    of_one = {}
    for number, sides in enumerate(of_a_row):
        of_one[number] = [1, *(side.get_length() for side in sides)]
    model.reshape(of_one)
    return sum(map(_of, model.get_ordered_ops()))


def _of(operation: Any) -> float:
    kind = operation.get_type_name()
    if kind in _INNER:
        return nan
    if kind not in _FORMULAS:
        return 0
    ports = [*operation.inputs(), *operation.outputs()]
    shapes = [port.get_partial_shape() for port in ports]
    if any(shape.is_dynamic for shape in shapes):
        return nan
    known = [tuple(side.get_length() for side in shape) for shape in shapes]
    return float(_FORMULAS[kind](operation.get_attributes(), *known))


def _matmul(attributes: Mapping[str, Any], first: Shape, second: Shape, outputs: Shape) -> int:
    return 2 * prod(outputs) * first[-2 if attributes["transpose_a"] else -1]


def _einsum(attributes: Mapping[str, Any], *shapes: Shape) -> int:
    return product_flops.einsum(attributes["equation"], *shapes)


def _attention(_: Any, query: Shape, key: Shape, value: Shape, *others: Shape) -> int:
    return product_flops.attention(query, key, value)


def _convolution(_: Any, inputs: Shape, kernel: Shape, outputs: Shape) -> int:
    """The kernel is [outputs, channels, ...]."""
    return 2 * prod(outputs) * prod(kernel[1:])


def _groups(_: Any, inputs: Shape, kernel: Shape, outputs: Shape) -> int:
    """The kernel is [groups, outputs, channels, ...]."""
    return 2 * prod(outputs) * prod(kernel[2:])


def _transposed(_: Any, inputs: Shape, kernel: Shape, *others: Shape) -> int:
    """The kernel is [channels, outputs, ...], and each input is multiplied by all its outputs."""
    return 2 * prod(inputs) * prod(kernel[1:])


_FORMULAS: Mapping[str, Any] = {
    "MatMul": _matmul,
    "Einsum": _einsum,
    "ScaledDotProductAttention": _attention,
    "Convolution": _convolution,
    "GroupConvolution": _groups,
    "ConvolutionBackpropData": _transposed,
}
"""Operator → (its attributes, the shapes of its inputs and of its output) → its operations: two for
each multiplication.
"""
