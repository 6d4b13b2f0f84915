"""Trains models of KerasHub by `compile` and `fit`, with a callback.

The call is `keras.Model.fit`. KerasHub's own `fit` first wraps the inputs into a pipeline of TensorFlow or Grain, for a preprocessor
that there is none of here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import keras

from sut.contract import Batch, Evidence, Workload
from sut.keras3 import runtime


class KerasTraining:
    """A KerasHub model that is compiled for training. Its methods are those of `sut.contract.Training`.

    `named` gives the inputs under KerasHub's names.
    """

    def __init__(self, model: Any, workload: Workload, named: Callable[[Batch], Batch]):
        self.model, self.workload, self.named = model, workload, named
        self.trainable = sum(math.prod(v.shape) for v in model.trainable_variables)

    def prepare(self, inputs: Batch) -> Batch:
        """The inputs under KerasHub's names, and the labels."""
        return {**self.named(inputs), "label": inputs["label"]}

    def fit(self, batches: Iterable[Batch], steps: int, on_step: Callable[[Callable[[], float]], None]) -> None:
        """One epoch of `fit` over a generator of the batches."""
        pairs = (({name: values for name, values in batch.items() if name != "label"}, batch["label"]) for batch in batches)
        keras.Model.fit(self.model, pairs, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[_Steps(on_step)])

    def freeze(self) -> None:
        """The optimizer reads its learning rate at each step, so that nothing is compiled anew."""
        self.model.optimizer.learning_rate = 0.0

    def synchronise(self) -> None:
        """Wait for the device."""
        runtime.synchronise(self.model)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `runtime.evidence`."""
        return runtime.evidence(self.model, self.workload, "fit", call)


def compile_for_training(model: Any, workload: Workload, loss: Any, **arguments: Any) -> None:
    """Compile with AdamW. `arguments`: more of `model.compile`."""
    adamw = DenseAdamW if hasattr(runtime.backend, "dense") else keras.optimizers.AdamW
    model.compile(
        optimizer=adamw(**workload.config["optimizer"]),
        loss=loss,
        jit_compile=workload.execution == "xla",
        **arguments,
    )


class DenseAdamW(keras.optimizers.AdamW):
    """Keras' AdamW on dense gradients.

    Where a backend has a gradient for each token, Keras 3.15 squares them one by one: of a token that repeats, the second moment is then
    the sum of the squares, and not the square of the sum. After 20 steps at size tiny the losses are 0.03 of their deviation off.
    """

    def apply(self, grads: list[Any], trainable_variables: Any = None) -> None:
        """Make them dense, and go on as Keras does."""
        super().apply([runtime.backend.dense(gradient) for gradient in grads], trainable_variables)


class _Steps(keras.callbacks.Callback):
    """Tells the end of each step where the next one begins, and that of the last one where the epoch ends.

    A callback with an `on_train_batch_end` would be given the losses as numbers, and every step would wait for them.
    """

    def __init__(self, on_step: Callable[[Callable[[], float]], None]):
        super().__init__()
        self.on_step = on_step

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch:
            self.on_step(self._mean_loss)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.on_step(self._mean_loss)

    def _mean_loss(self) -> float:
        """Keras' own mean of the losses since it was reset. JAX's trainer gives its state back when it is asked."""
        if hasattr(self.model, "jax_state_sync"):
            self.model.jax_state_sync()
        loss = float(self.model.get_metrics_result()["loss"])
        self.model.reset_metrics()
        return loss
