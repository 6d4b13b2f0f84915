"""Trains the models of the native JAX files. A step is one compiled program, `train_step`, for each
shape. It runs forward, backward and AdamW.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sut.contract import AsGiven, Batch, Call, Evidence, OnStep, Workload
from sut.evidence import jax_programs
from sut.native_jax import runtime
from sut.native_jax.runtime import DeviceBatch, Weights

Loss = Callable[[dict[str, jax.Array], Weights, DeviceBatch], jax.Array]
"""(trained weights, frozen weights, a batch) → the mean loss of the batch."""


class JaxTraining(AsGiven):
    """Trained weights and a loss. Its methods are those of `sut.contract.Training`.

    Args:
        loss: a function that JAX can differentiate by its first argument.
        frozen: weights that the loss needs and that stay unchanged.
    """

    def __init__(
        self,
        loss: Loss,
        trained: dict[str, jax.Array],
        workload: Workload,
        frozen: Weights | None = None,
    ):
        self.workload = workload
        self.frozen = frozen or {}
        self.trainable = sum(values.size for values in trained.values())
        constants = workload.config["optimizer"]
        self.rate = np.float32(constants["learning_rate"])
        # The arrays are separate, because both are donated.
        first = jax.tree.map(jnp.zeros_like, trained)
        second = jax.tree.map(jnp.zeros_like, trained)
        self.state = (trained, first, second, jnp.zeros((), jnp.int32))
        self.losses: list[jax.Array] = []

        def train_step(state: Any, frozen: Weights, rate: jax.Array, batch: DeviceBatch) -> Any:
            trained, *moments, count = state
            value, gradients = jax.value_and_grad(loss)(trained, frozen, batch)
            update = partial(adamw, constants, rate, count + 1)
            updated = jax.tree.map(update, trained, gradients, *moments)
            weights = {name: parts[0] for name, parts in updated.items()}
            first = {name: parts[1] for name, parts in updated.items()}
            second = {name: parts[2] for name, parts in updated.items()}
            return (weights, first, second, count + 1), value

        # The new state replaces the old one in memory.
        self.program = jax.jit(train_step, donate_argnums=0)

    def parameters(self) -> Iterator[np.ndarray]:
        """Yield the trained weights, float32."""
        for values in self.state[0].values():
            yield np.asarray(values, np.float32)

    def fit(self, batches: Iterable[Batch], steps: int, on_step: OnStep) -> None:
        """Call the program for each batch. A call may return before the device is done."""
        for batch in batches:
            self.state, loss = self.program(self.state, self.frozen, self.rate, batch)
            self.losses.append(loss)
            on_step(self._mean_loss)

    def _mean_loss(self) -> float:
        mean = float(np.mean(jax.device_get(self.losses)))
        self.losses.clear()
        return mean

    def freeze(self) -> None:
        """Set the learning rate to zero. It is an argument of the program."""
        self.rate = np.float32(0)

    def synchronise(self) -> None:
        """Wait for the device."""
        jax_programs.synchronise()

    def evidence(self, call: Call) -> Evidence:
        """See `runtime.evidence`. With LoRA the frozen weights count, because the factors are
        float32 in every precision.
        """
        return runtime.evidence(self.frozen or self.state[0], self.workload, "train_step", call)


def adamw(
    constants: Mapping[str, float],
    rate: jax.Array,
    count: jax.Array,
    weight: jax.Array,
    gradient: jax.Array,
    first: jax.Array,
    second: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Make one step of AdamW (Loshchilov & Hutter 2019, algorithm 2). Return (weight, first moment,
    second moment).

    As in PyTorch, epsilon is added after the correction of the second moment, moments are kept in
    the weight's dtype, and the arithmetic is float32.
    """
    dtype = weight.dtype
    weight, gradient, first, second = [
        values.astype(jnp.float32) for values in (weight, gradient, first, second)
    ]
    beta_1 = constants["beta_1"]
    beta_2 = constants["beta_2"]
    first = beta_1 * first + (1 - beta_1) * gradient
    second = beta_2 * second + (1 - beta_2) * gradient**2
    mean = first / (1 - beta_1**count)
    square = second / (1 - beta_2**count)
    step = mean / (jnp.sqrt(square) + constants["epsilon"])
    # 1 - 5e-7 is 1 - 4.8e-7 in float32, so another order would decay 5 % more than PyTorch does.
    weight = weight * (1 - rate * constants["weight_decay"]) - rate * step
    return weight.astype(dtype), first.astype(dtype), second.astype(dtype)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """logits [..., classes], labels [...] → the mean over all labels except -100."""
    chances = jax.nn.log_softmax(logits.astype(jnp.float32))
    own = jnp.take_along_axis(chances, jnp.maximum(labels, 0)[..., None], axis=-1)[..., 0]
    return -own.mean(where=labels != -100)
