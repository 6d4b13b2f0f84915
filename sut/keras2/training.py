"""Trains models of KerasNLP on Keras 2 by `compile` and `fit`; see `keras_training`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tf_keras

from sut.contract import Batch, OnStep, Workload
from sut.keras import training as keras_training
from sut.keras.training import KerasTraining
from sut.keras2 import runtime


def compiled(
    model: Any, workload: Workload, named: Callable[[Batch], Batch], loss: Any, **versions: str
) -> KerasTraining:
    """Return the model, compiled with AdamW.

    Args:
        named: returns the inputs under the library's names.
        versions: versions of the model's libraries, by name.
    """
    keras_training.check_precision(workload)
    # Otherwise XLA would compile the optimizer on every machine with a GPU.
    xla = workload.execution == "xla"
    optimizer = tf_keras.optimizers.AdamW(**workload.config["optimizer"], jit_compile=xla)
    model.compile(optimizer=optimizer, loss=loss, metrics=None, jit_compile=xla)
    return KerasTraining(model, workload, named, _epoch, runtime, versions)


class _Steps(keras_training.Steps, tf_keras.callbacks.Callback):
    """See `keras_training.Steps`."""

    def __init__(self, on_step: OnStep):
        super().__init__(on_step)
        # Otherwise Keras converts the losses to numbers, and every step waits for them.
        self._supports_tf_logs = True


def _epoch(
    model: Any,
    pairs: Iterable[keras_training.Pair],
    steps: int,
    on_step: OnStep,
) -> None:
    """Run one epoch over a pipeline of the pairs. KerasNLP's own `fit` requires a preprocessor, and
    there is none here.
    """
    data = runtime.backend.pipeline(pairs)
    tf_keras.Model.fit(
        model, data, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[_Steps(on_step)]
    )
