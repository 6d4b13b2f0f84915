"""Keras on JAX: XLA compiles every measured call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sut.evidence import jax_programs
from sut.evidence.jax_programs import about, configure, matrix_flops, peak_device_bytes, product

__all__ = [
    "EXECUTIONS",
    "about",
    "configure",
    "matrix_flops",
    "peak_device_bytes",
    "product",
    "synchronise",
    "watch",
]

EXECUTIONS = jax_programs.EXECUTIONS


def synchronise(model: Any) -> None:
    """Wait for all of JAX's computations, including the model's."""
    jax_programs.synchronise()


def watch(model: Any, call: Callable[[], Any]) -> dict[str, Any]:
    """See `jax_programs.watch`. It sees the programs of all models, and there is only one model."""
    return jax_programs.watch(call)
