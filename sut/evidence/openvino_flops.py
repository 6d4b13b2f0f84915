"""The floating-point operations of the matrix products of an OpenVINO model, from its shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan, prod
from typing import Any

from sut.evidence import product_flops

_INNER = ("Loop", "TensorIterator", "If")
_CONVOLUTIONS = {
    "Convolution": (-1, 1),
    "GroupConvolution": (-1, 2),
    "ConvolutionBackpropData": (0, 1),
}
"""Operator → the place of the outputs, or of the inputs of a transposed one, and the axis of the
kernel from which on all values are multiplied for each of them. The kernel is [groups, outputs,
channels, ...], without groups [outputs, channels, ...], and transposed [channels, outputs, ...].
"""
_OTHERS = ("MatMul", "Einsum", "ScaledDotProductAttention")


def of_row(model: Any) -> float:
    """Return the operations for one row of a batch, the first axis of its inputs. NaN: not known,
    because another axis has any length, or because the model has loops or branches.
    """
    shapes = [each.partial_shape for each in model.inputs]
    rows = shapes[0][0]
    of_a_row = [list(shape)[1:] for shape in shapes]
    if any(side.is_dynamic for sides in of_a_row for side in sides):
        return nan
    if not rows.is_dynamic:
        return sum(map(_of, model.get_ordered_ops())) / rows.get_length()
    of_one = [[1, *(side.get_length() for side in sides)] for sides in of_a_row]
    return of_shapes(model, dict(enumerate(of_one)))


def of_shapes(model: Any, shapes: Mapping[Any, Sequence[int]]) -> float:
    """Return the operations for inputs of these shapes, by their names or places. NaN: not known,
    because the model has loops or branches, or shapes that depend on values.
    """
    model = model.clone()
    model.reshape({name: list(shape) for name, shape in shapes.items()})
    return sum(map(_of, model.get_ordered_ops()))


def _of(operation: Any) -> float:
    """Return the operations of an operator: two for each multiplication."""
    kind = operation.get_type_name()
    if kind in _INNER:
        return nan
    if kind not in (*_CONVOLUTIONS, *_OTHERS):
        return 0
    ports = [*operation.inputs(), *operation.outputs()]
    shapes = [port.get_partial_shape() for port in ports]
    if any(shape.is_dynamic for shape in shapes):
        return nan
    known = [tuple(side.get_length() for side in shape) for shape in shapes]
    if kind in _CONVOLUTIONS:
        place, axis = _CONVOLUTIONS[kind]
        return 2 * prod(known[place]) * prod(known[1][axis:])
    if kind == "ScaledDotProductAttention":
        return product_flops.attention(*known[:3])
    attributes = operation.get_attributes()
    if kind == "Einsum":
        return product_flops.einsum(attributes["equation"], *known)
    return product_flops.matmul(known[0], known[-1], transposed=attributes["transpose_a"])
