"""Stable Diffusion of KerasCV on Keras 2. The measured call is Keras' `predict_on_batch`, as on Keras 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras_cv
import numpy as np

from sut import keras_stable_diffusion
from sut.contract import Batch, Evidence, Workload
from sut.keras2 import runtime


class Keras2StableDiffusion:
    """KerasCV's networks in one model. Its methods are those of `sut.contract.Inference`."""

    in_flight, streams_tokens = 1, False  # predict_on_batch copies to the host

    def __init__(self, model: Any, workload: Workload):
        self.model, self.workload = model, workload

    def prepare(self, inputs: Batch) -> Batch:
        """The inputs as they are."""
        return inputs

    def predict(self, batch: Batch, on_first_token: Any = None) -> dict[str, np.ndarray]:
        """→ `image` and `latents`, see `TextToImage.call`, already on the host."""
        return self.model.predict_on_batch(batch)

    def to_host(self, outputs: dict[str, np.ndarray]) -> Batch:
        """See `keras_stable_diffusion.to_host`."""
        return keras_stable_diffusion.to_host(outputs)

    def synchronise(self) -> None:
        """Wait for the device."""
        runtime.synchronise(self.model)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `runtime.evidence`."""
        return runtime.evidence(self.model, self.workload, "predict_on_batch", call, keras_cv=keras_cv.__version__)


def load(workload: Workload) -> Keras2StableDiffusion:
    """The checkpoint's networks, every tensor under KerasCV's name."""
    runtime.configure(workload)
    model = keras_stable_diffusion.TextToImage(workload.config["model"])
    keras_stable_diffusion.load(model, workload.checkpoint)
    model.compile(optimizer="sgd", loss=None, metrics=None, jit_compile=workload.execution == "xla")  # Keras 2 wants one named; none trains
    return Keras2StableDiffusion(model, workload)
