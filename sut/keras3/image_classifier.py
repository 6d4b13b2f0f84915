"""Classifiers of pictures of KerasHub that answer the likeliest class. The compiled call also
subtracts the mean, divides by the deviation, and chooses the class.
"""

from __future__ import annotations

import keras
import numpy as np

from sut.contract import Batch, Workload
from sut.keras.model import KerasPredictor
from sut.keras3 import picture_encoder, runtime

_PIXELS = "pixel_values"


def load(workload: Workload) -> KerasPredictor:
    """The checkpoint's classifier, between the scaling of its input and the choice of a class."""
    channels, height, width = workload.config["pixel_shape"]
    classifier = picture_encoder.load_model(workload)
    mean, deviation = (np.array(workload.config[name]) for name in ("mean", "deviation"))
    pixels = keras.Input((height, width, channels), dtype="uint8", name=_PIXELS)
    scaled = keras.layers.Rescaling(1 / deviation, -mean / deviation, dtype="float32")(pixels)
    label = keras.ops.argmax(classifier(scaled), axis=-1, keepdims=True)
    model = keras.Model(pixels, label)
    return KerasPredictor(model, workload, runtime, prepare=_prepare, to_host=_to_host)


def _prepare(inputs: Batch) -> Batch:
    """Return the pictures with their channels last. The mean and the deviation are part of the
    model.
    """
    return {_PIXELS: np.ascontiguousarray(inputs[_PIXELS].transpose(0, 2, 3, 1))}


def _to_host(outputs: np.ndarray) -> Batch:
    """Return the classes, int64 [batch, 1]."""
    return {"label": np.ascontiguousarray(outputs, np.int64)}
