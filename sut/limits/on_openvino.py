"""The operations of OpenVINO that `doctor --limits` measures. Each is a compiled program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import openvino
from openvino import opset16

from sut.evidence import openvino_programs
from sut.keras import on_openvino
from sut.limits.framework import Run


def configure(device: str) -> None:
    """See `Framework.configure`."""
    on_openvino.configure(device, "float32")


def version() -> str:
    """Return the framework's version."""
    version, _, _ = str(openvino.get_version()).partition("-")  # without the build
    return version


def use(precision: str) -> None:
    """Do nothing: `configure` chose the only precision."""


def wait(result: Any) -> None:
    """Do nothing: the processor is done on return."""


def product(precision: str, rows: int, inner: int, columns: int) -> Run:
    """Return the product with a constant, as the weights of a model are."""
    weight = opset16.constant(_random(inner, columns))
    values = opset16.parameter([rows, inner], np.float32)
    multiply = opset16.matmul(values, weight, False, False)
    return _program(multiply, values)


def other_products(precision: str, side: int) -> Mapping[str, Run]:
    """Return nothing: OpenVINO chooses the library of each product."""
    return {}


def about_products(precision: str, run: Run) -> Mapping[str, Any]:
    """See `Framework.about_products`."""
    return openvino_programs.about_product()


def reads(rows: int, columns: int) -> Sequence[tuple[Run, int]]:
    """Return sums of the rows and of the columns."""
    size = 4 * rows * columns
    ways = []
    for axis in (0, 1):
        array = opset16.parameter([rows, columns], np.float32)
        total = opset16.reduce_sum(array, np.array([axis]))
        ways.append((_program(total, array), size))
    return ways


def _program(result: Any, parameter: Any) -> Run:
    """Return a call of the compiled program on random values. Its result stays in the program's own
    memory.
    """
    program = openvino.compile_model(openvino.Model([result], [parameter]), "CPU")
    values = _random(*parameter.shape)
    return lambda: program([values], share_inputs=True, share_outputs=True)


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, np.float32)
