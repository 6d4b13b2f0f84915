"""Trains the image encoder of Stable Diffusion in plain JAX towards latents, by their mean squared error; see `training`."""

from __future__ import annotations

from sut.contract import Workload
from sut.native_jax import autoencoder
from sut.native_jax.diffusion_blocks import load_weights
from sut.native_jax.training import JaxTraining, squared_error


def load(workload: Workload) -> JaxTraining:
    """The checkpoint's encoder, with the convolution behind it, to be trained."""
    config = workload.config["model"]
    return JaxTraining(
        lambda trained, _, batch: squared_error(autoencoder.encode(config, trained, batch["image"]), batch["label"]),
        load_weights(workload, autoencoder.ENCODER),
        workload,
    )
