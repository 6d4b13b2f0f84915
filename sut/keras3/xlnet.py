"""XLNet of KerasHub. KerasHub has no reader for XLNet's Hugging Face folders, and mixes up the
inputs of a batch. This module corrects both.
"""

from __future__ import annotations

from typing import Any

import keras
import keras_hub
import numpy as np

from sut.checkpoint import keras_weights, weights_files
from sut.contract import Batch, Config, Unsupported, Workload
from sut.keras3 import runtime

_LAYER = {
    "rel_attn.q": "relative_attention._query_dense.kernel",
    "rel_attn.k": "relative_attention._key_dense.kernel",
    "rel_attn.v": "relative_attention._value_dense.kernel",
    "rel_attn.o": "relative_attention._output_dense.kernel",
    "rel_attn.r": "relative_attention._encoding_dense.kernel",
    "rel_attn.r_w_bias": "content_attention_bias",
    "rel_attn.r_r_bias": "positional_attention_bias",
    "rel_attn.r_s_bias": "segment_attention_bias",
    "rel_attn.seg_embed": "segment_encoding",
    "rel_attn.layer_norm.*": "layer_norm",
    "ff.layer_1.*": "feedforward_intermediate_dense",
    "ff.layer_2.*": "feedforward_output_dense",
    "ff.layer_norm.*": "layer_norm_ff",
}
"""Tensor of a layer → path of attributes to KerasHub's variable, or to the layer that has weight
and bias.
"""
_COMPUTED = {"attn_type": "bi", "bi_data": False, "clamp_len": -1, "ff_activation": "gelu"}


def load_model(workload: Workload) -> Any:
    """The checkpoint's backbone. Raises Unsupported for a configuration that KerasHub's class
    cannot compute.
    """
    runtime.configure(workload)
    config = workload.config["model"]
    check(config)
    dtype = "bfloat16" if workload.precision == "bfloat16" else "float32"
    model = build(config, dtype)
    names = weights_files.names(workload.checkpoint)
    embedding = next(name for name in names if name.endswith("word_embedding.weight"))
    prefix = embedding.removesuffix("word_embedding.weight")
    table = {
        f"{prefix}word_embedding.weight": "embedding.word_embed.embeddings",
        f"{prefix}mask_emb": "masks.mask_emb",
    }
    for n in range(config["num_hidden_layers"]):
        for name, path in _LAYER.items():
            table[f"{prefix}layer.{n}.{name}"] = f"layers.{n}.{path}"
    roots = {
        "embedding": model.content_query_embedding,
        "masks": model.attn_mask_layer,
        "layers": model.transformer_layers,
    }
    keras_weights.assign(workload.checkpoint, keras_weights.variables(roots, table))
    transpose_and_not_reshape(model.content_query_embedding, model.attn_mask_layer)
    runtime.backend.product(dtype)  # compiled here, so that evidence compiles nothing
    return model


def check(config: Config) -> None:
    """Raises Unsupported if config.json has a value that KerasHub's class does not compute."""
    for key, computed in _COMPUTED.items():
        value = config.get(key, computed)
        if value != computed:
            raise Unsupported(
                f"KerasHub's XLNetBackbone computes {key} {computed} and no other ({value}): take"
                " native-torch"
            )


@runtime.nothing_drawn()
def build(config: Config, dtype: str) -> Any:
    """KerasHub's backbone of a configuration. Its variables are zeros."""
    return keras_hub.models.XLNetBackbone(
        vocabulary_size=config["vocab_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        hidden_dim=config["hidden_size"],
        intermediate_dim=config["intermediate_size"],
        dtype=dtype,
    )


def transpose_and_not_reshape(embedding: Any, masks: Any) -> None:
    """Arrange positions and mask so that KerasHub's reshaping yields their transposes. KerasHub
    0.32 reshapes instead of transposing: positions [2 · length, batch, channels] to [batch, 2 ·
    length, channels], and the mask [batch, length] to [length, batch]. So each input of a batch
    gets the values of others (hidden states change by a deviation).
    """
    ops = keras.ops
    own_positions = embedding.positional_embedding
    own_masks = masks.call

    def positions(sequence: Any, frequencies: Any, batch: Any) -> Any:
        of_one = ops.transpose(own_positions(sequence, frequencies, 1), (1, 0, 2))
        _, length, channels = ops.shape(of_one)
        of_all = ops.broadcast_to(of_one, (batch, length, channels))
        return ops.reshape(of_all, (length, batch, channels))

    def arranged_masks(mask: Any) -> Any:
        arranged = ops.reshape(ops.transpose(mask), ops.shape(mask))
        return own_masks(arranged)

    embedding.positional_embedding = positions
    masks.call = arranged_masks


def prepare(inputs: Batch) -> Batch:
    """Return the inputs under KerasHub's names, all of the first segment. If they have no mask,
    nothing is padding.
    """
    ids = inputs["input_ids"]
    mask = inputs.get("attention_mask", np.ones_like(ids))
    return {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": mask}
