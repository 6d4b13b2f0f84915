"""Stable Diffusion of KerasCV."""

from __future__ import annotations

import keras

from sut.contract import Workload
from sut.keras3 import keras_cv_alone, runtime
from sut.keras_predictor import KerasPredictor

keras_cv_alone.place()

from sut import keras_stable_diffusion  # noqa: E402


def load(workload: Workload) -> KerasPredictor:
    """See `keras_stable_diffusion.predictor`."""
    runtime.configure(workload)
    dtype = "bfloat16" if workload.precision == "bfloat16" else "float32"
    keras.config.set_dtype_policy(dtype)  # KerasCV's networks take no dtype
    runtime.backend.product(dtype)  # compiled here, so that evidence compiles nothing
    with runtime.nothing_drawn():
        return keras_stable_diffusion.predictor(workload, runtime)
