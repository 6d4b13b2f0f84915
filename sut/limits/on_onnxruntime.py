"""The operations of ONNX Runtime that `doctor --limits` measures. Each is a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

from sut.contract import Unsupported
from sut.devices import HOST
from sut.evidence import matrix_library
from sut.limits.framework import Run
from sut.onnxruntime import runtime


def configure(device: str) -> None:
    """See `Framework.configure`."""
    if device != HOST:
        raise Unsupported(f"--device {device}: this ONNX Runtime is built for processors")
    onnxruntime.disable_telemetry_events()


def version() -> str:
    """Return the framework's version."""
    return str(onnxruntime.__version__)


def use(precision: str) -> None:
    """Do nothing: there is only one precision."""


def wait(result: Any) -> None:
    """Do nothing: the processor is done on return."""


def product(precision: str, rows: int, inner: int, columns: int) -> Run:
    """Return the product with a constant, as the weights of a model are."""
    weight = numpy_helper.from_array(_random(inner, columns), "b")
    node = helper.make_node("MatMul", ["a", "b"], ["c"])
    return _run(runtime.program(node, weight, a=[rows, inner]), rows, inner)


def other_products(precision: str, side: int) -> Mapping[str, Run]:
    """Return nothing: ONNX Runtime has one library of products."""
    return {}


def about_products(precision: str, run: Run) -> Mapping[str, Any]:
    """See `Framework.about_products`."""
    return matrix_library.fact(runtime.LIBRARY, threads=runtime.threads())


def reads(rows: int, columns: int) -> Sequence[tuple[Run, int]]:
    """Return sums of the rows and of the columns."""
    ways = []
    for axis in (0, 1):
        axes = numpy_helper.from_array(np.array([axis], np.int64), "axes")
        node = helper.make_node("ReduceSum", ["a", "axes"], ["c"])
        session = runtime.program(node, axes, a=[rows, columns])
        ways.append((_run(session, rows, columns), 4 * rows * columns))
    return ways


def _run(session: Any, rows: int, columns: int) -> Run:
    """Return a run of the session on random values, which it reads where they are."""
    feeds = {"a": _random(rows, columns)}
    return lambda: session.run(None, feeds)


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, np.float32)
