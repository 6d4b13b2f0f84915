"""Trains LoRA's factors of language models in plain JAX; see `training`."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from sut import adapters
from sut.contract import Workload
from sut.native_jax import causal_lm
from sut.native_jax.runtime import Weights
from sut.native_jax.training import JaxTraining, cross_entropy


def factors(workload: Workload) -> dict[str, jax.Array]:
    """Return what is trained, float32: `a` [in, rank] and `b` [rank, out] of the products of query and value in each layer.

    They are peft's, transposed, as all weights of dense layers are here.
    """
    config, lora = workload.config["model"], workload.config["lora"]
    made = {}
    for number in range(config["num_hidden_layers"]):
        for name in adapters.LAYERS:
            product, (_, shape) = f"model.layers.{number}.self_attn.{name}", adapters.shapes(config, lora, name)
            made[f"{product}.a"] = jnp.asarray(adapters.first(config, lora, number, name).T)
            made[f"{product}.b"] = jnp.zeros(shape[::-1])
    return made


def load(workload: Workload) -> JaxTraining:
    """The checkpoint's model, frozen, with factors to be trained. Raises Unsupported as `causal_lm.load_weights` does."""
    config, lora = workload.config["model"], workload.config["lora"]
    scale = lora["alpha"] / lora["rank"]

    def loss(trained: dict[str, jax.Array], frozen: Weights, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Inputs are padded on the right, where labels are -100. No token looks at what stands behind it, so that no mask is needed."""
        scaled = {name: scale * values if name.endswith(".a") else values for name, values in trained.items()}
        return cross_entropy(causal_lm.teacher_forced(config, {**frozen, **scaled}, batch["input_ids"]), batch["label"])

    frozen = causal_lm.load_weights(workload)
    return JaxTraining(loss, factors(workload), workload, frozen)
