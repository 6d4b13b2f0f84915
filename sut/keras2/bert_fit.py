"""Trains every parameter of BERT-like classifiers of KerasNLP on Keras 2, by `compile` and `fit` with a callback."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import keras_nlp
import tensorflow as tf
import tf_keras

from sut import keras_bert
from sut.contract import Batch, Evidence, Workload
from sut.keras2 import bert, runtime


class Keras2Training:
    """A KerasNLP classifier that is compiled for training. Its methods are those of `sut.contract.Training`."""

    def __init__(self, model: Any, workload: Workload):
        self.model, self.workload = model, workload
        self.trainable = sum(math.prod(v.shape) for v in model.trainable_variables)

    def prepare(self, inputs: Batch) -> Batch:
        """The inputs under KerasNLP's names, and the labels."""
        return {**keras_bert.prepare(inputs), "label": inputs["label"]}

    def fit(self, batches: Iterable[Batch], steps: int, on_step: Callable[[Callable[[], float]], None]) -> None:
        """One epoch of `fit` over a pipeline of the batches. KerasNLP's own `fit` is for a preprocessor, which there is none of here."""
        rows = map(_pair, batches)
        first = next(rows)
        signature = tf.nest.map_structure(lambda array: tf.TensorSpec(array.shape, array.dtype), first)
        dataset = tf.data.Dataset.from_generator(lambda: chain([first], rows), output_signature=signature).with_options(_options())
        tf_keras.Model.fit(self.model, dataset, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[_Steps(on_step)])

    def freeze(self) -> None:
        """The optimizer reads its learning rate at each step."""
        self.model.optimizer.learning_rate = 0.0

    def synchronise(self) -> None:
        """Wait for the device."""
        runtime.synchronise(self.model)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `runtime.evidence`."""
        return runtime.evidence(self.model, self.workload, "fit", call, keras_nlp=keras_nlp.__version__)


def _pair(batch: Batch) -> tuple[dict[str, Any], Any]:
    return {name: values for name, values in batch.items() if name != "label"}, batch["label"]


def _options() -> tf.data.Options:
    """Without the thread that tunes a pipeline: the end of an epoch waits for it, up to ten seconds."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


class _Steps(tf_keras.callbacks.Callback):
    """Tells the end of each step where the next one begins, and that of the last one where the epoch ends."""

    def __init__(self, on_step: Callable[[Callable[[], float]], None]):
        super().__init__()
        self.on_step = on_step
        self._supports_tf_logs = True  # else Keras makes numbers of the losses, and every step waits for them

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if batch:
            self.on_step(self._mean_loss)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.on_step(self._mean_loss)

    def _mean_loss(self) -> float:
        """Keras' own mean of the losses since it was reset."""
        loss = float(self.model.get_metrics_result()["loss"])
        self.model.reset_metrics()
        return loss


def load(workload: Workload) -> Keras2Training:
    """The checkpoint's classifier, compiled for training."""
    model = bert.build(workload)
    model.compile(
        optimizer=tf_keras.optimizers.AdamW(**workload.config["optimizer"]),
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=None,
        jit_compile=workload.execution == "xla",
    )
    return Keras2Training(model, workload)
