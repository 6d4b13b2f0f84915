"""The floating-point operations of one matrix product of torch, from what its profiler records."""

from __future__ import annotations

from math import prod
from typing import Any

from sut.evidence import product_flops

_ATTENTION = "aten::_scaled_dot_product"
_MADE_OF_OTHERS = "aten::_scaled_dot_product_attention_math"  # its products are recorded, too
_MATRICES = {
    "aten::mm": (0, -1),
    "aten::bmm": (0, -1),
    "aten::addmm": (1, -1),
    "aten::baddbmm": (1, -1),
    "aten::mkldnn_linear": (0, 0),
    "mkldnn::_linear_pointwise": (0, 0),
}
"""Operator → the place of the first of its two operands, and the axis of the outputs in the second.
"""


def of(event: Any) -> int | None:
    """Return the operations of an event of the profiler, which records shapes. None: not known.

    The formulas are those of `torch.utils.flop_counter`, by which the work of a sample is counted.
    """
    name = event.name().removesuffix("_")
    shapes = event.shapes()
    if name == _MADE_OF_OTHERS:
        return 0
    if name.startswith(_ATTENTION):
        return product_flops.attention(*shapes[:3])
    if name in _MATRICES:
        place, axis = _MATRICES[name]
        first, second = shapes[place : place + 2]
        return 2 * prod(first) * int(second[axis])
    if name == "aten::convolution":
        # The arguments are stride, padding, dilation, and whether the convolution is transposed,
        # which multiplies each input by the kernel.
        inputs = shapes[0]
        kernel = shapes[1]
        *lists, transposed = event.concrete_inputs()[3:7]
        places = inputs[2:]
        if not transposed:
            every = zip(places, kernel[2:], *lists, strict=True)
            places = [
                (side + 2 * pad - step * (width - 1) - 1) // stride + 1
                for side, width, stride, pad, step in every
            ]
        return 2 * inputs[0] * prod(places) * prod(kernel)
    return None
