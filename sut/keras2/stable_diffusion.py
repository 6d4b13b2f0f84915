"""Stable Diffusion of KerasCV on Keras 2."""

from __future__ import annotations

import keras_cv

from sut.contract import Workload
from sut.keras import stable_diffusion as keras_stable_diffusion
from sut.keras.predictor import KerasPredictor
from sut.keras.training import KerasTraining
from sut.keras2 import runtime, training


def load(workload: Workload) -> KerasPredictor:
    """See `keras_stable_diffusion.predictor`."""
    runtime.configure(workload)
    return keras_stable_diffusion.predictor(workload, runtime)


def load_training(workload: Workload) -> KerasTraining:
    """The checkpoint's image encoder, compiled to train towards latents; see `training`."""
    runtime.configure(workload)
    encoder = keras_stable_diffusion.image_encoder(workload.config["model"])
    keras_stable_diffusion.load_encoder(encoder, workload.checkpoint)
    return training.image_encoder(encoder, workload, keras_cv=keras_cv.__version__)
