"""Keras on JAX: XLA compiles every measured call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import jax
import keras

from sut.contract import Call
from sut.evidence import jax_programs
from sut.evidence.jax_programs import about, configure, matrix_flops, peak_device_bytes, product

__all__ = [
    "EXECUTIONS",
    "RUNS_AHEAD",
    "about",
    "compiled",
    "configure",
    "divide_host",
    "held",
    "matrix_flops",
    "peak_device_bytes",
    "product",
    "synchronise",
    "watch",
]

EXECUTIONS = jax_programs.EXECUTIONS
RUNS_AHEAD = True
"""Whether a call returns before the device is done, and a copy to the host waits only for the
program whose output it copies.
"""


def synchronise(model: Any) -> None:
    """Wait for all of JAX's computations, including the model's."""
    jax_programs.synchronise()


def watch(model: Any, call: Call) -> dict[str, Any]:
    """See `jax_programs.watch`. It sees the programs of all models, and there is only one model."""
    return jax_programs.watch(call)


def divide_host(count: int) -> None:
    """Let the CPU appear as so many devices. JAX must not have looked for its devices yet."""
    jax.config.update("jax_num_cpu_devices", count)


def held(variables: Iterable[Any]) -> list[dict[str, Any]]:
    """Return `device` and `bytes` of each device that has parts of these variables, by the
    shardings of their arrays.
    """
    bytes_of: Counter[str] = Counter()
    for variable in variables:
        for shard in variable.value.addressable_shards:
            bytes_of[str(shard.device)] += shard.data.nbytes
    return [{"device": name, "bytes": count} for name, count in sorted(bytes_of.items())]


def compiled(
    model: Any, function: Callable[[Any, Any], Any]
) -> Callable[[], Callable[[Any, Any], Any]]:
    """Return a function that returns `function` (arguments, state) of this model, compiled as
    KerasHub compiles `generate_step`, with the model's present weights.

    The program may write into the state that it gets.
    """
    variables = [*model.trainable_variables, *model.non_trainable_variables]

    def step(weights: Any, arguments: Any, state: Any) -> Any:
        with keras.StatelessScope(state_mapping=zip(variables, weights, strict=True)):
            return function(arguments, state)

    program = jax.jit(step, donate_argnames="state")
    return lambda: partial(program, [each.value for each in variables])
