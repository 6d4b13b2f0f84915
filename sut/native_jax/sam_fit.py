"""Trains Segment Anything's image encoder in plain JAX towards features, by their mean squared error; see `training`."""

from __future__ import annotations

from collections.abc import Mapping

import jax

from sut.contract import Workload
from sut.native_jax import sam
from sut.native_jax.runtime import Weights
from sut.native_jax.training import JaxTraining, squared_error


def load(workload: Workload) -> JaxTraining:
    """The checkpoint's encoder, to be trained."""
    config = workload.config["model"]

    def loss(trained: Weights, _: Weights, batch: Mapping[str, jax.Array]) -> jax.Array:
        """`image` [batch, side, side, 3], `label` [batch, grid, grid, channels]."""
        return squared_error(sam.encode(config, trained, batch["image"]), batch["label"])

    return JaxTraining(loss, sam.load_weights(workload, begins=("image_encoder.",)), workload)
