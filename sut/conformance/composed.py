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


def _masked(layer: Any) -> _Model:
    """A layer that gets a mask: of the steps of which no feature is positive."""
    x = keras.Input(batch_shape=(3, 9, 2))
    return [x], layer(keras.layers.Masking(0.0)(keras.layers.ReLU()(x)))


def _embedded(layer: Any) -> _Model:
    """A layer that gets the mask of an embedding: of the id 0, which may be anywhere."""
    ids = keras.Input(batch_shape=(3, 9), dtype="int32")
    return [ids], layer(keras.layers.Embedding(6, 4, mask_zero=True)(ids))


def _attended() -> _Model:
    """An attention of a sequence on itself, with the mask of its embedding."""
    attention = keras.layers.MultiHeadAttention(2, 4)
    return _embedded(lambda x: attention(x, x, use_causal_mask=True))


ALL = {
    "sums of squares of 40,000 rows of three": lambda: _rows(40_000),
    "sums of squares of 30,000 rows of three": lambda: _rows(30_000),
    "largest of three mixed channels": _pixels,
    "LSTM with a mask": lambda: _masked(keras.layers.LSTM(4, return_sequences=True)),
    "LSTM backwards with a mask": lambda: _masked(
        keras.layers.LSTM(4, return_sequences=True, go_backwards=True)
    ),
    "GRU of an embedding with a mask": lambda: _embedded(keras.layers.GRU(4)),
    "SimpleRNN unrolled with a mask": lambda: _masked(keras.layers.SimpleRNN(4, unroll=True)),
    "LSTM in both directions with a mask": lambda: _masked(
        keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))
    ),
    "dense layer of each step with a mask": lambda: _masked(
        keras.layers.TimeDistributed(keras.layers.Dense(3))
    ),
    "mean of an embedding with a mask": lambda: _embedded(keras.layers.GlobalAveragePooling1D()),
    "softmax of an embedding with a mask": lambda: _embedded(keras.layers.Softmax(axis=1)),
    "batch normalisation of an embedding with a mask": lambda: _embedded(
        keras.layers.BatchNormalization()
    ),
    "attention of an embedding with a mask": _attended,
}
"""Name of each model → the function that builds it."""
