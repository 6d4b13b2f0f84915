"""Stable Diffusion of KerasCV. The measured call is `predict_on_batch`: `predict` builds a data pipeline at each call (8 ms)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import keras
import numpy as np

from sut.contract import Batch, Evidence, Workload
from sut.keras3 import keras_cv_alone, runtime

keras_cv_alone.place()

from sut import keras_stable_diffusion  # noqa: E402


class KerasStableDiffusion:
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
        return runtime.evidence(self.model, self.workload, "predict_on_batch", call, keras_cv=version("keras-cv"))


def load(workload: Workload) -> KerasStableDiffusion:
    """The checkpoint's networks, every tensor under KerasCV's name."""
    model = _build(workload, keras_stable_diffusion.TextToImage)
    keras_stable_diffusion.load(model, workload.checkpoint)
    model.compile(optimizer=None, loss=None, metrics=None, jit_compile=workload.execution == "xla")
    return KerasStableDiffusion(model, workload)


def image_encoder(workload: Workload) -> Any:
    """The checkpoint's encoder of images."""
    encoder = _build(workload, keras_stable_diffusion.image_encoder)
    keras_stable_diffusion.load_encoder(encoder, workload.checkpoint)
    return encoder


def _build(workload: Workload, network: Callable[[Mapping[str, Any]], Any]) -> Any:
    """What `network` makes of the model's configuration, in the workload's precision. Its variables are zeros."""
    runtime.configure(workload)
    dtype = "bfloat16" if workload.precision == "bfloat16" else "float32"
    keras.config.set_dtype_policy(dtype)  # KerasCV's networks take no dtype
    runtime.backend.product(dtype)  # compiled here, so that evidence compiles nothing
    with runtime.nothing_drawn():
        return network(workload.config["model"])
