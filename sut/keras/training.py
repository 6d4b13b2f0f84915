"""Trains models by Keras' `compile` and `fit`, with a callback: what Keras 3 and Keras 2 have in
common.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from sut.contract import Batch, Evidence, Unsupported, Workload

Pair = tuple[dict[str, Any], Any]
"""Inputs by name, and labels: what Keras' `fit` calls x and y."""


def check_precision(workload: Workload) -> None:
    """Raises Unsupported where Keras' AdamW would change no weight. LoRA's factors are float32,
    whatever the precision is.
    """
    if workload.precision == "bfloat16" and "lora" not in workload.config:
        raise Unsupported(
            "--precision bfloat16: Keras' AdamW computes in the dtype of the weights, which rounds"
            " beta_2 (0.999) to 1, and then no step changes a weight; --precision float32 trains"
        )


class KerasTraining:
    """A model that is compiled for training. Its methods are those of `sut.contract.Training`.

    Args:
        named: gives the inputs under the library's names.
        epoch: makes one epoch of Keras' `fit`: (model, pairs, how many there are, `on_step`) →
            None.
        runtime: `sut.keras3.runtime` or `sut.keras2.runtime`.
        versions: of more libraries, by name.
    """

    def __init__(
        self,
        model: Any,
        workload: Workload,
        named: Callable[[Batch], Batch],
        epoch: Callable[..., None],
        runtime: ModuleType,
        versions: dict[str, str],
    ):
        self.model, self.workload, self.named, self.epoch, self.runtime, self.versions = (
            model,
            workload,
            named,
            epoch,
            runtime,
            versions,
        )
        self.trainable = sum(math.prod(v.shape) for v in model.trainable_variables)

    def prepare(self, inputs: Batch) -> Batch:
        """The inputs under the library's names, and the labels."""
        return {**self.named(inputs), "label": inputs["label"]}

    def fit(
        self, batches: Iterable[Batch], steps: int, on_step: Callable[[Callable[[], float]], None]
    ) -> None:
        """One epoch of `fit` over a generator of the batches."""
        pairs = (
            ({name: values for name, values in batch.items() if name != "label"}, batch["label"])
            for batch in batches
        )
        self.epoch(self.model, pairs, steps, on_step)

    def freeze(self) -> None:
        """The optimizer reads its learning rate at each step, so that nothing is compiled anew."""
        self.model.optimizer.learning_rate = 0.0

    def synchronise(self) -> None:
        """Wait for the device."""
        self.runtime.synchronise(self.model)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `runtime.evidence`."""
        evidence: Evidence = self.runtime.evidence(
            self.model, self.workload, "fit", call, **self.versions
        )
        return evidence


class Steps:
    """Tells the end of each step where the next one begins, and that of the last one where the
    epoch ends.

    It is mixed into a `Callback` of Keras, whose `model` it reads. A callback with an
    `on_train_batch_end` would be given the losses as numbers, and every step would wait for them.
    """

    model: Any

    def __init__(self, on_step: Callable[[Callable[[], float]], None]):
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
        """Keras' own mean of the losses since it was reset. JAX's trainer gives its state back when
        it is asked.
        """
        if hasattr(self.model, "jax_state_sync"):
            self.model.jax_state_sync()
        loss = float(self.model.get_metrics_result()["loss"])
        self.model.reset_metrics()
        return loss


def images(inputs: Batch) -> Batch:
    """The input of an image encoder."""
    return {"images": inputs["image"]}
