"""Trains models by Keras' `compile` and `fit`, with a callback, for Keras 3 and Keras 2."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from sut.contract import Batch, OnStep, Unsupported, Workload
from sut.keras.model import KerasModel

LABEL = "label"
"""The beginning of the names of labels."""
Pair = tuple[Any, Any]
"""Inputs, and labels. Keras' `fit` calls them x and y."""


def check_precision(workload: Workload) -> None:
    """Raises Unsupported if Keras' AdamW would change no weight. LoRA's factors are float32 in
    every precision.
    """
    if workload.precision == "bfloat16" and "lora" not in workload.config:
        raise Unsupported(
            "--precision bfloat16: Keras' AdamW computes in the dtype of the weights, which rounds"
            " beta_2 (0.999) to 1, and then no step changes a weight; --precision float32 trains"
        )


def one_label(batch: Batch) -> Pair:
    """Return the inputs and the `label` of a batch."""
    inputs = dict(batch)
    label = inputs.pop("label")
    return inputs, label


class KerasTraining(KerasModel):
    """A model that is compiled for training. Its methods are those of `sut.contract.Training`.

    Args:
        named: returns the inputs under the library's names.
        epoch: runs one epoch of Keras' `fit`: (model, pairs, number of pairs, `on_step`) → None.
        runtime: `sut.keras3.runtime` or `sut.keras2.runtime`.
        versions: versions of more libraries, by name.
        pair: returns the inputs and the labels of a batch, as `fit` takes them.
    """

    def __init__(
        self,
        model: Any,
        workload: Workload,
        named: Callable[[Batch], Batch],
        epoch: Callable[..., None],
        runtime: ModuleType,
        versions: dict[str, str],
        pair: Callable[[Batch], Pair] = one_label,
    ):
        super().__init__(model, workload, runtime, "fit", **versions)
        self.named = named
        self.epoch = epoch
        self.pair = pair
        self.trainable = sum(math.prod(v.shape) for v in model.trainable_variables)

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs under the library's names, and the labels."""
        labels = {name: array for name, array in inputs.items() if name.startswith(LABEL)}
        return {**self.named(inputs), **labels}

    def parameters(self) -> Iterator[np.ndarray]:
        """Yield the trained variables."""
        for variable in self.model.trainable_variables:
            yield np.asarray(variable)

    def fit(self, batches: Iterable[Batch], steps: int, on_step: OnStep) -> None:
        """Run one epoch of `fit` over a generator of the batches."""
        pairs = (self.pair(batch) for batch in batches)
        self.epoch(self.model, pairs, steps, on_step)

    def freeze(self) -> None:
        """Set the learning rate to zero. The optimizer reads it at each step, so nothing is
        compiled again.
        """
        self.model.optimizer.learning_rate = 0.0


class Steps:
    """Reports the end of each step when the next one begins, and the end of the last step when the
    epoch ends.

    It is mixed into a `Callback` of Keras, whose `model` it reads. Keras would pass the losses as
    numbers to a callback with `on_train_batch_end`, and every step would wait for them.
    """

    model: Any

    def __init__(self, on_step: OnStep):
        super().__init__()
        self.on_step = on_step

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Keras' hook."""
        if batch:
            self.on_step(self._mean_loss)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keras' hook."""
        self.on_step(self._mean_loss)

    def _mean_loss(self) -> float:
        """Return Keras' own mean of the losses since its last reset. JAX's trainer returns its
        state only on request.
        """
        if hasattr(self.model, "jax_state_sync"):
            self.model.jax_state_sync()
        loss = float(self.model.get_metrics_result()["loss"])
        self.model.reset_metrics()
        return loss
