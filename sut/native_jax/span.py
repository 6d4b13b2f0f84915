"""BERT with the head of a span, in plain JAX. Its answers are logits [batch, length, 2] of the
span's start and its end. The measured call is one compiled program, `find`, for each shape.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sut.checkpoint import weights_files
from sut.contract import Batch, Unsupported, Workload
from sut.native_jax import bert
from sut.native_jax.runtime import Weights

_DEFAULTS = {"layer_norm_eps": 1e-12, "hidden_act": "gelu"}
_NEEDED = ("bert.embeddings.token_type_embeddings.weight", "qa_outputs.weight")


class JaxSpan(bert.JaxBert):
    """BERT with the head of a span. Its methods are those of `sut.contract.Inference`."""

    inputs = ("input_ids", "attention_mask", "token_type_ids")

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs. Without types, all tokens are of the first one."""
        return {"token_type_ids": np.zeros_like(inputs["input_ids"]), **inputs}


def load(workload: Workload) -> JaxSpan:
    """The checkpoint's model. Raises Unsupported if it is not BERT's."""
    stored = set(weights_files.names(workload.checkpoint))
    lacking = [name for name in _NEEDED if name not in stored]
    if lacking:
        raise Unsupported(
            f"sut/native_jax/span.py is written for BERT's layout; the folder lacks the tensor"
            f" {lacking[0]}: take keras3-jax"
        )
    positions = workload.config["model"].get("position_embedding_type", "absolute")
    if positions != "absolute":
        raise Unsupported(
            f"sut/native_jax/span.py is written for absolute positions, not for {positions}: take"
            " native-torch-eager"
        )
    config = _DEFAULTS | workload.config["model"]

    def find(weights: Weights, ids: jax.Array, mask: jax.Array, types: jax.Array) -> jax.Array:
        x = bert.hidden(config, weights, ids, mask, types)
        return bert.dense(weights, "qa_outputs", x).astype(jnp.float32)

    return JaxSpan(workload, find)
