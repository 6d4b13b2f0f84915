"""The floating-point operations of products that several frameworks have: two for each
multiplication. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Shape = Sequence[int]


def matmul(first: Shape, outputs: Shape, *, transposed: bool) -> int:
    """Return the operations of a product of matrices. `transposed`: whether the first operand is
    [..., inner, rows].
    """
    return 2 * prod(outputs) * first[-2 if transposed else -1]


def einsum(equation: str, *shapes: Shape) -> int:
    """Return the operations of a product of two operands, by all values of all indices. An axis is
    named by a letter; there is no ellipsis.

    Args:
        shapes: those of the operands, which others may follow.
    """
    sides: dict[str, int] = {}
    for letters, shape in zip(equation.split("->")[0].split(","), shapes, strict=False):
        sides |= dict(zip(letters, shape, strict=True))
    return 2 * prod(sides.values())


def attention(query: Shape, key: Shape, value: Shape) -> int:
    """Return the operations of scaled dot-product attention, [..., length, width] each."""
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
