"""Trains the image encoder of KerasHub's Segment Anything towards features, by their mean squared error; see `training`."""

from __future__ import annotations

import keras

from sut.contract import Batch, Workload
from sut.keras3 import sam
from sut.keras3.training import KerasTraining, compile_for_training


def _named(inputs: Batch) -> Batch:
    return {"images": inputs["image"]}


def load(workload: Workload) -> KerasTraining:
    """The checkpoint's encoder, compiled for training."""
    encoder = next(layer.image_encoder for layer in sam.load(workload).model.layers if hasattr(layer, "image_encoder"))
    model = keras.Model({"images": encoder.input}, encoder.output)
    compile_for_training(model, workload, keras.losses.MeanSquaredError(), metrics=None)
    return KerasTraining(model, workload, _named)
