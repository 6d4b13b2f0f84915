"""Models of several operations, in whose fusion a backend was wrong."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

_Model = tuple[list[Any], Any]
"""(symbolic inputs, output)."""


def _rows(count: int) -> _Model:
    """Sums of squares of `m @ x.T` over its leading axis (jax issue 39103)."""
    points = keras.Input(batch_shape=(count, 3), name="points")
    matrix = keras.Input(batch_shape=(3, 3), name="matrix")
    return [points, matrix], ops.sum(ops.square(ops.matmul(matrix, ops.transpose(points))), axis=0)


def _pixels() -> _Model:
    """The largest channel of a picture whose colours are mixed, channels first."""
    picture = keras.Input(batch_shape=(1, 3, 200, 200), name="picture")
    matrix = keras.Input(batch_shape=(3, 3), name="matrix")
    mixed = ops.matmul(matrix, ops.reshape(picture, (3, -1)))
    return [picture, matrix], ops.max(ops.tanh(mixed), axis=0)


ALL = {
    "sums of squares of 40,000 rows of three": lambda: _rows(40_000),
    "sums of squares of 30,000 rows of three": lambda: _rows(30_000),
    "largest of three mixed channels": _pixels,
}
"""Name of each model → the function that builds it."""
