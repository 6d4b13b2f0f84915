"""Trains models of KerasHub and KerasCV by `compile` and `fit`; see `keras_training`.

The call is `keras.Model.fit`. KerasHub's own `fit` first wraps the inputs into a pipeline of
TensorFlow or Grain for a preprocessor, and there is none here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import keras

from sut import keras_archive
from sut.contract import Batch, OnStep, Workload
from sut.keras import training as keras_training
from sut.keras.training import KerasTraining
from sut.keras3 import runtime


def compiled(
    model: Any,
    workload: Workload,
    named: Callable[[Batch], Batch],
    loss: Any,
    versions: dict[str, str] | None = None,
    **arguments: Any,
) -> KerasTraining:
    """Return the model, compiled with AdamW.

    Args:
        named: returns the inputs under the library's names.
        versions: versions of libraries other than Keras and KerasHub, by name.
        arguments: more arguments of `model.compile`.
    """
    keras_training.check_precision(workload)
    optimizer = keras.optimizers.AdamW(**workload.config["optimizer"])
    if keras.backend.backend() == "tensorflow":
        keras_archive.add_up_gradients(optimizer)
    model.compile(
        optimizer=optimizer, loss=loss, jit_compile=workload.execution == "xla", **arguments
    )
    return KerasTraining(model, workload, named, epoch, runtime, versions or {})


def image_encoder(encoder: Any, workload: Workload, **versions: str) -> KerasTraining:
    """Return the encoder, compiled to be trained towards features by their mean squared error.
    `versions`: versions of more libraries, by name.
    """
    model = keras.Model({"images": encoder.inputs[0]}, encoder.outputs[0])
    loss = keras.losses.MeanSquaredError()
    return compiled(model, workload, _images, loss, versions, metrics=None)


def _images(inputs: Batch) -> Batch:
    """Return the input of an image encoder."""
    return {"images": inputs["image"]}


class _Steps(keras_training.Steps, keras.callbacks.Callback):
    """See `keras_training.Steps`."""


def data(pairs: Iterable[keras_training.Pair]) -> Any:
    """Return the pairs as `fit` takes them, on TensorFlow as a pipeline.

    The pipeline that Keras would build from the pairs tunes itself (see `on_tensorflow.pipeline`).
    """
    return runtime.backend.pipeline(pairs) if hasattr(runtime.backend, "pipeline") else pairs


def epoch(
    model: Any,
    pairs: Iterable[keras_training.Pair],
    steps: int,
    on_step: OnStep,
) -> None:
    """Run one epoch of Keras' `fit`; see `KerasTraining`."""
    keras.Model.fit(
        model, data(pairs), steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[_Steps(on_step)]
    )
