"""Trains the image encoder of KerasCV's Stable Diffusion towards latents, by their mean squared error; see `training`."""

from __future__ import annotations

from importlib.metadata import version

from sut.contract import Workload
from sut.keras.training import KerasTraining
from sut.keras3 import stable_diffusion, training


def load(workload: Workload) -> KerasTraining:
    """The checkpoint's encoder, compiled for training."""
    return training.image_encoder(stable_diffusion.image_encoder(workload), workload, keras_cv=version("keras-cv"))
