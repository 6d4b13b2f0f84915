"""Trains the image encoder of KerasCV's Stable Diffusion on Keras 2 towards latents, by their mean squared error; see `training`."""

from __future__ import annotations

import keras_cv

from sut.contract import Workload
from sut.keras import stable_diffusion as keras_stable_diffusion
from sut.keras.training import KerasTraining
from sut.keras2 import runtime, training


def load(workload: Workload) -> KerasTraining:
    """The checkpoint's encoder, compiled for training."""
    runtime.configure(workload)
    encoder = keras_stable_diffusion.image_encoder(workload.config["model"])
    keras_stable_diffusion.load_encoder(encoder, workload.checkpoint)
    return training.image_encoder(encoder, workload, keras_cv=keras_cv.__version__)
