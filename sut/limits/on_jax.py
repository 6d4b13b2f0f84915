"""The operations of JAX that `doctor --limits` measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp

from sut.evidence import jax_programs
from sut.limits.framework import Run


@cache
def _multiply(precision: str) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """The compiled product. Its program has a name for each precision, by which it is found."""

    def product(values: jax.Array, weight: jax.Array) -> jax.Array:
        return values @ weight

    product.__name__ = f"product_{precision}"
    return jax.jit(product)


def configure(device: str) -> None:
    """See `Framework.configure`."""
    jax_programs.configure(device, "float32")


def version() -> str:
    """Return the framework's version."""
    return jax.__version__


def use(precision: str) -> None:
    """See `Framework.use`."""
    jax_programs.set_precision(precision)


def wait(result: Any) -> None:
    """Wait for the result. A device runs programs in the order of their calls."""
    jax.block_until_ready(result)


def product(precision: str, rows: int, inner: int, columns: int) -> Run:
    """Return the compiled product."""
    values = _random(precision, rows, inner)
    weight = _random(precision, inner, columns)
    multiply = _multiply(precision)
    return _one_after_the_other(lambda: multiply(values, weight))


def other_products(precision: str, side: int) -> Mapping[str, Run]:
    """Return nothing: XLA compiles every product of JAX."""
    return {}


def about_products(precision: str, run: Run) -> Mapping[str, Any]:
    """See `Framework.about_products`."""
    about: Mapping[str, Any] = jax_programs.watch(run)["matrix_products"]
    return about


def reads(rows: int, columns: int) -> Sequence[tuple[Run, int]]:
    """Return compiled sums of the rows and of the columns."""
    array = _random("float32", rows, columns)
    ways = []
    for axis in (0, 1):
        add = jax.jit(partial(jnp.sum, axis=axis))
        run = _one_after_the_other(partial(add, array))
        ways.append((run, array.nbytes))
    return ways


def _one_after_the_other(run: Run) -> Run:
    """Return `run`, on a CPU with its wait. JAX would otherwise keep the results of many calls in
    memory there.
    """
    if jax.default_backend() != "cpu":
        return run
    return lambda: jax.block_until_ready(run())


def _random(precision: str, rows: int, columns: int) -> jax.Array:
    dtype = jnp.dtype("float32" if precision == "tf32" else precision)
    return jax.random.uniform(jax.random.key(0), (rows, columns), dtype)
