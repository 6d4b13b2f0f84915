"""The functions of a module `sut.limits.on_<framework>`. Standard library only.

Arrays that are multiplied have random values: a GPU multiplies matrices of equal values with less
power, and faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

Run = Callable[[], object]
"""Starts an operation, and returns its result. `Framework.wait` waits for it."""


class Framework(Protocol):
    """The functions of such a module. They need `configure` first."""

    def configure(self, device: str) -> None:
        """Choose the device for everything that follows. Raises Unsupported if there is none."""

    def version(self) -> str:
        """Return the framework's version."""

    def use(self, precision: str) -> None:
        """Choose the precision of the products that run from here on."""

    def wait(self, result: Any) -> None:
        """Wait for the result of a `Run`, and for those that were started before it."""

    def product(self, precision: str, rows: int, inner: int, columns: int) -> Run:
        """Return the product of [rows, inner] and [inner, columns] as the framework's own layers
        compute it. The framework's own error is raised if it has no such product.
        """

    def other_products(self, precision: str, side: int) -> Mapping[str, Run]:
        """Return name of another way to multiply → the product of two [side, side] this way. Empty
        if a user has no other way.
        """

    def about_products(self, precision: str, run: Run) -> Mapping[str, Any]:
        """Return `matrix_library.fact` of a product in this precision, of which `run` is one."""

    def reads(self, rows: int, columns: int) -> Sequence[tuple[Run, int]]:
        """Return ways to read float32 [rows, columns], each with the bytes that it reads."""
