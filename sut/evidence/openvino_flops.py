"""The floating-point operations of the matrix products of an OpenVINO model, from its shapes."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan, prod
from typing import Any

Shape = tuple[int, ...]
_INNER = ("Loop", "TensorIterator", "If")


def of_row(model: Any) -> float:
    """Return the operations for one row of a batch, the first axis of its inputs. NaN: not known,
    because another axis has any length, or because the model has loops or branches.
    """
    shapes = [each.partial_shape for each in model.inputs]
    if any(side.is_dynamic for shape in shapes for side in list(shape)[1:]):
        return nan
    rows = 1
    if shapes[0][0].is_dynamic:
        model = model.clone()
        sides = [[each.get_length() for each in list(shape)[1:]] for shape in shapes]
        model.reshape({i: [1, *each] for i, each in enumerate(sides)})
    else:
        rows = shapes[0][0].get_length()
    return sum(map(_of, model.get_ordered_ops())) / rows


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
    """All values of all indices of the two operands."""
    operands = attributes["equation"].split("->")[0].split(",")
    sides: dict[str, int] = {}
    for letters, shape in zip(operands, shapes, strict=False):
        sides |= dict(zip(letters, shape, strict=True))
    return 2 * prod(sides.values())


def _attention(_: Any, query: Shape, key: Shape, value: Shape, *others: Shape) -> int:
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


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
