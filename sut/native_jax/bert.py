"""BERT (Devlin et al. 2019) in plain JAX. The measured call is one compiled program, `classify`,
for each shape.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from sut.contract import Batch, Config, Workload
from sut.native_jax import runtime
from sut.native_jax.runtime import DeviceBatch, Weights
from sut.native_jax.training import JaxTraining, cross_entropy


def dense(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """x [..., in] → [..., out], with the bias if there is one."""
    product = x @ weights[f"{name}.weight"]
    return product + weights[f"{name}.bias"] if f"{name}.bias" in weights else product


def norm(weights: Weights, name: str, x: jax.Array, epsilon: float) -> jax.Array:
    """Layer normalisation over the last axis, computed in float32."""
    wide = x.astype(jnp.float32)
    centered = wide - wide.mean(-1, keepdims=True)
    wide = centered * jax.lax.rsqrt(wide.var(-1, keepdims=True) + epsilon)
    normed = wide * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return normed.astype(x.dtype)


def attention(weights: Weights, layer: str, x: jax.Array, mask: jax.Array, heads: int) -> jax.Array:
    """x [batch, length, hidden], mask bool [batch, 1, 1, length] → [batch, length, hidden]."""
    by_head = (*x.shape[:2], heads, -1)
    query = dense(weights, f"{layer}.attention.self.query", x).reshape(by_head)
    key = dense(weights, f"{layer}.attention.self.key", x).reshape(by_head)
    value = dense(weights, f"{layer}.attention.self.value", x).reshape(by_head)
    products = jnp.einsum("bqhd,bkhd->bhqk", query, key).astype(jnp.float32)
    scores = products / np.sqrt(query.shape[-1])
    scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
    shares = jax.nn.softmax(scores).astype(x.dtype)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", shares, value)
    return dense(weights, f"{layer}.attention.output.dense", mixed.reshape(x.shape))


def hidden(
    config: Config, weights: Weights, ids: jax.Array, mask: jax.Array, types: jax.Array | int
) -> jax.Array:
    """ids, mask: int32 [batch, length]; types: int32 of that shape, or one type → the hidden states
    of the last layer, [batch, length, hidden].
    """
    normed = partial(norm, weights, epsilon=config["layer_norm_eps"])
    activation = partial(jax.nn.gelu, approximate=config["hidden_act"] != "gelu")
    words = weights["bert.embeddings.word_embeddings.weight"]
    positions = weights["bert.embeddings.position_embeddings.weight"]
    token_types = weights["bert.embeddings.token_type_embeddings.weight"]
    x = words[ids] + positions[: ids.shape[1]] + token_types[types]
    x = normed("bert.embeddings.LayerNorm", x)
    for number in range(config["num_hidden_layers"]):
        layer = f"bert.encoder.layer.{number}"
        is_token = mask[:, None, None, :] == 1
        mixed = attention(weights, layer, x, is_token, config["num_attention_heads"])
        x = normed(f"{layer}.attention.output.LayerNorm", x + mixed)
        inner = activation(dense(weights, f"{layer}.intermediate.dense", x))
        outer = dense(weights, f"{layer}.output.dense", inner)
        x = normed(f"{layer}.output.LayerNorm", x + outer)
    return x


def logits(config: Config, weights: Weights, ids: jax.Array, mask: jax.Array) -> jax.Array:
    """ids, mask: int32 [batch, length] → float32 [batch, classes]."""
    x = hidden(config, weights, ids, mask, 0)
    pooled = jnp.tanh(dense(weights, "bert.pooler.dense", x[:, 0]))
    return dense(weights, "classifier", pooled).astype(jnp.float32)


class JaxBert(runtime.JaxModel):
    """BERT with a head. Its methods are those of `sut.contract.Inference`.

    Args:
        answer: (the weights, each of the `inputs`) → the logits. It is compiled.
    """

    inputs: tuple[str, ...] = ("input_ids", "attention_mask")

    def __init__(self, workload: Workload, answer: Callable[..., jax.Array]):
        super().__init__(runtime.load_weights(workload), workload, answer.__name__)
        self.program = jax.jit(answer)

    def predict(self, batch: Batch) -> jax.Array:
        """Return the logits, on their way to the host."""
        outputs = self.program(self.weights, *(batch[name] for name in self.inputs))
        outputs.copy_to_host_async()
        return outputs

    def to_host(self, outputs: jax.Array) -> Batch:
        """Return the logits, once they have arrived."""
        return {"logits": np.ascontiguousarray(outputs)}


def load(workload: Workload) -> JaxBert:
    """The checkpoint's classifier. Its answers are logits [batch, classes]."""
    config = workload.config["model"]

    def classify(weights: Weights, ids: jax.Array, mask: jax.Array) -> jax.Array:
        return logits(config, weights, ids, mask)

    return JaxBert(workload, classify)


def load_training(workload: Workload) -> JaxTraining:
    """The checkpoint's classifier, to train every parameter; see `training`."""
    config = workload.config["model"]

    def loss(trained: Weights, _: Weights, batch: DeviceBatch) -> jax.Array:
        answers = logits(config, trained, batch["input_ids"], batch["attention_mask"])
        return cross_entropy(answers, batch["label"])

    return JaxTraining(loss, runtime.load_weights(workload), workload)
