"""The operations of TensorFlow that `doctor --limits` measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from sut.keras import on_tensorflow
from sut.limits.framework import Run

_device = ["cpu"]


def configure(device: str) -> None:
    """See `Framework.configure`."""
    on_tensorflow.configure(device, "float32")
    _device[:] = [device]


def version() -> str:
    """Return the framework's version."""
    return str(tf.__version__)


def use(precision: str) -> None:
    """See `Framework.use`."""
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")


def wait(result: Any) -> None:
    """Wait for the GPU; a CPU is done on return."""
    if _device[0] != "cpu":
        tf.test.experimental.sync_devices()


def product(precision: str, rows: int, inner: int, columns: int) -> Run:
    """Return the product in a graph without XLA. Only a graph's trace names the library."""
    values = _random(precision, rows, inner)
    weight = _random(precision, inner, columns)
    multiply = tf.function(tf.linalg.matmul)
    return lambda: multiply(values, weight)


def other_products(precision: str, side: int) -> Mapping[str, Run]:
    """Return XLA's product."""
    values = _random(precision, side, side)
    multiply = tf.function(tf.linalg.matmul, jit_compile=True)
    return {"XLA": lambda: multiply(values, values)}


def about_products(precision: str, run: Run) -> Mapping[str, Any]:
    """See `Framework.about_products`."""
    about: Mapping[str, Any] = on_tensorflow.watch(None, run)["matrix_products"]
    return about


def reads(rows: int, columns: int) -> Sequence[tuple[Run, int]]:
    """Return sums of the rows and of the columns."""
    array = _random("float32", rows, columns)
    size = 4 * rows * columns
    return [
        (lambda: tf.reduce_sum(array, axis=1), size),
        (lambda: tf.reduce_sum(array, axis=0), size),
    ]


def _random(precision: str, rows: int, columns: int) -> tf.Tensor:
    dtype = "float32" if precision == "tf32" else precision
    return tf.random.uniform((rows, columns), dtype=dtype)
