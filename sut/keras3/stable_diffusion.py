"""Stable Diffusion of KerasCV."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import keras

from sut.contract import Workload
from sut.keras.predictor import KerasPredictor
from sut.keras.training import KerasTraining
from sut.keras3 import keras_cv_alone, runtime, training

keras_cv_alone.place()

from sut.keras import stable_diffusion as keras_stable_diffusion  # noqa: E402


def load(workload: Workload) -> KerasPredictor:
    """See `keras_stable_diffusion.predictor`."""
    with _building(workload):
        return keras_stable_diffusion.predictor(workload, runtime)


def image_encoder(workload: Workload) -> Any:
    """The checkpoint's encoder of images."""
    with _building(workload):
        encoder = keras_stable_diffusion.image_encoder(workload.config["model"])
        keras_stable_diffusion.load_encoder(encoder, workload.checkpoint)
        return encoder


@contextmanager
def _building(workload: Workload) -> Iterator[None]:
    """A context in which networks have the workload's precision, and no random weights."""
    runtime.configure(workload)
    dtype = "bfloat16" if workload.precision == "bfloat16" else "float32"
    keras.config.set_dtype_policy(dtype)  # KerasCV's networks take no dtype
    runtime.backend.product(dtype)  # compiled here, so that evidence compiles nothing
    with runtime.nothing_drawn():
        yield


def load_training(workload: Workload) -> KerasTraining:
    """The checkpoint's image encoder, compiled to train towards latents; see `training`."""
    return training.image_encoder(image_encoder(workload), workload, keras_cv=version("keras-cv"))
