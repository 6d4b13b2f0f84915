"""BERT (Devlin et al. 2019) in plain JAX. The measured call is one compiled program, `classify`,
for each shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sut.contract import Batch, Evidence, Workload
from sut.evidence import jax_programs
from sut.native_jax import runtime
from sut.native_jax.layers import dense, norm
from sut.native_jax.runtime import Weights
from sut.native_jax.training import JaxTraining, cross_entropy

Config = Mapping[str, Any]


def attention(weights: Weights, layer: str, x: jax.Array, mask: jax.Array, heads: int) -> jax.Array:
    """x [batch, length, hidden], mask bool [batch, 1, 1, length] → [batch, length, hidden]."""
    parts = (
        dense(weights, f"{layer}.attention.self.{name}", x) for name in ("query", "key", "value")
    )
    query, key, value = (part.reshape(*x.shape[:2], heads, -1) for part in parts)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key).astype(jnp.float32) / np.sqrt(
        query.shape[-1]
    )
    shares = jax.nn.softmax(jnp.where(mask, scores, jnp.finfo(jnp.float32).min)).astype(x.dtype)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", shares, value)
    return dense(weights, f"{layer}.attention.output.dense", mixed.reshape(x.shape))


def logits(config: Config, weights: Weights, ids: jax.Array, mask: jax.Array) -> jax.Array:
    """ids, mask: int32 [batch, length] → float32 [batch, classes]."""
    normed = partial(norm, weights, epsilon=config["layer_norm_eps"])
    activation = partial(jax.nn.gelu, approximate=config["hidden_act"] != "gelu")
    word, position, kind = (
        weights[f"bert.embeddings.{name}_embeddings.weight"]
        for name in ("word", "position", "token_type")
    )
    x = normed("bert.embeddings.LayerNorm", word[ids] + position[: ids.shape[1]] + kind[0])
    for number in range(config["num_hidden_layers"]):
        layer = f"bert.encoder.layer.{number}"
        mixed = attention(
            weights, layer, x, mask[:, None, None, :] == 1, config["num_attention_heads"]
        )
        x = normed(f"{layer}.attention.output.LayerNorm", x + mixed)
        inner = activation(dense(weights, f"{layer}.intermediate.dense", x))
        x = normed(f"{layer}.output.LayerNorm", x + dense(weights, f"{layer}.output.dense", inner))
    pooled = jnp.tanh(dense(weights, "bert.pooler.dense", x[:, 0]))
    return dense(weights, "classifier", pooled).astype(jnp.float32)


class JaxClassifier:
    """BERT with its head. Its methods are those of `sut.contract.Inference`."""

    def __init__(self, weights: dict[str, jax.Array], workload: Workload):
        self.weights, self.workload, self.in_flight = weights, workload, workload.in_flight
        config = workload.config["model"]

        def classify(weights: Weights, ids: jax.Array, mask: jax.Array) -> jax.Array:
            return logits(config, weights, ids, mask)

        self.program = jax.jit(classify)

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs unchanged."""
        return inputs

    def predict(self, batch: Batch) -> jax.Array:
        """Return logits [batch, classes], on their way to the host."""
        outputs = self.program(self.weights, batch["input_ids"], batch["attention_mask"])
        outputs.copy_to_host_async()
        return outputs

    def to_host(self, outputs: jax.Array) -> Batch:
        """Return the logits, once they have arrived."""
        return {"logits": np.ascontiguousarray(outputs)}

    def synchronise(self) -> None:
        """Wait for the device."""
        jax_programs.synchronise()

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `runtime.evidence`."""
        return runtime.evidence(self.weights, self.workload, "classify", call)


def load(workload: Workload) -> JaxClassifier:
    """The checkpoint's classifier."""
    return JaxClassifier(runtime.load_weights(workload), workload)


def load_training(workload: Workload) -> JaxTraining:
    """The checkpoint's classifier, to train every parameter; see `training`."""
    config = workload.config["model"]
    return JaxTraining(
        lambda trained, _, batch: cross_entropy(
            logits(config, trained, batch["input_ids"], batch["attention_mask"]), batch["label"]
        ),
        runtime.load_weights(workload),
        workload,
    )
