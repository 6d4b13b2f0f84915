"""Trains the image encoder of KerasHub's Segment Anything towards features, by their mean squared error; see `training`."""

from __future__ import annotations

from sut.contract import Workload
from sut.keras.training import KerasTraining
from sut.keras3 import sam, training


def load(workload: Workload) -> KerasTraining:
    """The checkpoint's encoder, compiled for training."""
    encoder = next(layer.image_encoder for layer in sam.load(workload).model.layers if hasattr(layer, "image_encoder"))
    return training.image_encoder(encoder, workload)
