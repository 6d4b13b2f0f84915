"""Stable Diffusion of KerasCV. One call runs its three networks and the denoising steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np

from sut.checkpoint import keras_weights, weights_files
from sut.checkpoint import stable_diffusion as weight_map
from sut.contract import Batch, Workload
from sut.keras.model import KerasPredictor
from sut.keras.training import KerasTraining
from sut.keras3 import diffusion_networks, runtime, training


def load(workload: Workload) -> KerasPredictor:
    """The checkpoint's networks, with every tensor under KerasCV's name."""
    with _building(workload):
        model = diffusion_networks.TextToImage(workload.config["model"])
        names = weights_files.names(workload.checkpoint)
        keras_weights.assign(workload.checkpoint, variables(model, names))
        return KerasPredictor(
            model, workload, runtime, prepare=dict, to_host=_to_host, keras_cv=version("keras-cv")
        )


def _to_host(outputs: Batch) -> Batch:
    """Return the images in 8 bits, and the latents after each quarter of the steps."""
    return {name: np.ascontiguousarray(outputs[name]) for name in ("image", "latents")}


def variables(model: Any, tensors: Iterable[str]) -> Iterator[tuple[str, Any, bool]]:
    """Yield (name in the checkpoint, the variable, whether it is a layer's weight) of each tensor
    that is needed to create images.
    """
    roots = {"text_encoder": model.text_encoder, "unet": model.unet, "decoder": model.image_decoder}
    by_kind = {name: _by_kind(network) for name, network in roots.items()}
    layers = len(by_kind["text_encoder"].CLIPEncoderLayer)
    return keras_weights.variables(by_kind, weight_map.keras_cv(set(tensors), layers))


def _by_kind(network: Any) -> SimpleNamespace:
    """Return class → its layers, in the order in which they run."""
    kinds: dict[str, list[Any]] = {}
    for layer in network.layers:
        kinds.setdefault(type(layer).__name__, []).append(layer)
    return SimpleNamespace(**kinds)


@contextmanager
def _building(workload: Workload) -> Iterator[None]:
    """A context in which networks have the workload's precision, and no random weights."""
    runtime.configure(workload)
    keras.config.set_dtype_policy(workload.dtype)  # KerasCV's networks take no dtype
    runtime.backend.product(workload.dtype)  # compiled here, so that evidence compiles nothing
    with runtime.nothing_drawn():
        yield


def load_training(workload: Workload) -> KerasTraining:
    """The checkpoint's image encoder, compiled to train towards latents; see `training`."""
    with _building(workload):
        encoder = diffusion_networks.image_encoder(workload.config["model"])
        table = weight_map.keras_cv_encoder(weights_files.names(workload.checkpoint))
        roots = {"encoder": _by_kind(encoder)}
        keras_weights.assign(workload.checkpoint, keras_weights.variables(roots, table))
    return training.image_encoder(encoder, workload, keras_cv=version("keras-cv"))
