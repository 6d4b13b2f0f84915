"""Stable Diffusion of KerasCV on Keras 2."""

from __future__ import annotations

from sut import keras_stable_diffusion
from sut.contract import Workload
from sut.keras2 import runtime
from sut.keras_predictor import KerasPredictor


def load(workload: Workload) -> KerasPredictor:
    """See `keras_stable_diffusion.predictor`."""
    runtime.configure(workload)
    return keras_stable_diffusion.predictor(workload, runtime)
