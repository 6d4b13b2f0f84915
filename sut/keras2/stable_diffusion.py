"""Stable Diffusion of KerasCV on Keras 2."""

from __future__ import annotations

from sut.contract import Workload
from sut.keras import stable_diffusion as keras_stable_diffusion
from sut.keras.predictor import KerasPredictor
from sut.keras2 import runtime


def load(workload: Workload) -> KerasPredictor:
    """See `keras_stable_diffusion.predictor`."""
    runtime.configure(workload)
    return keras_stable_diffusion.predictor(workload, runtime)
