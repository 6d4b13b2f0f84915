"""Trains the image encoder of KerasCV's Segment Anything on Keras 2 towards features, by their mean squared error; see `training`."""

from __future__ import annotations

import keras_cv

from sut.contract import Workload
from sut.keras.training import KerasTraining
from sut.keras2 import sam, training


def load(workload: Workload) -> KerasTraining:
    """The checkpoint's encoder, compiled for training."""
    return training.image_encoder(sam.load_segmenter(workload).backbone, workload, keras_cv=keras_cv.__version__)
