"""Mistral and GPT-2: KerasNLP's variables → the checkpoint's tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Place(NamedTuple):
    """The source of a variable's values.

    Attributes:
        path: the attributes from the language model to the variable.
        tensor: its name in the checkpoint. For GPT-2, a leading `transformer.` is left out.
        third: which third of the tensor's last axis; None: the whole tensor. GPT-2 keeps query, key
            and value in one tensor.
        turned: whether the checkpoint's matrix is [out, in]; Keras' matrices are [in, out].
    """

    path: str
    tensor: str
    third: int | None = None
    turned: bool = False


_ATTENTION = "_self_attention_layer"


def mistral(layers: int) -> Iterator[Place]:
    """Yield each tensor of a Mistral once."""
    yield Place("backbone.token_embedding.embeddings", "model.embed_tokens.weight")
    yield Place("backbone.token_embedding.reverse_embeddings", "lm_head.weight", turned=True)
    yield Place("backbone.layer_norm._weight", "model.norm.weight")
    products = {
        f"{_ATTENTION}._query_dense": "self_attn.q_proj",
        f"{_ATTENTION}._key_dense": "self_attn.k_proj",
        f"{_ATTENTION}._value_dense": "self_attn.v_proj",
        f"{_ATTENTION}._output_dense": "self_attn.o_proj",
        "_feedforward_gate_dense": "mlp.gate_proj",
        "_feedforward_intermediate_dense": "mlp.up_proj",
        "_feedforward_output_dense": "mlp.down_proj",
    }
    for n in range(layers):
        own = f"backbone.transformer_layers.{n}"
        theirs = f"model.layers.{n}"
        yield Place(f"{own}._self_attention_layernorm._weight", f"{theirs}.input_layernorm.weight")
        yield Place(
            f"{own}._feedforward_layernorm._weight", f"{theirs}.post_attention_layernorm.weight"
        )
        for path, name in products.items():
            yield Place(f"{own}.{path}.kernel", f"{theirs}.{name}.weight", turned=True)


def gpt2(layers: int) -> Iterator[Place]:
    """Yield each tensor of a GPT-2; those of query, key and value occur three times. GPT-2's
    matrices are [in, out], as Keras' are.
    """
    yield Place("backbone.token_embedding.embeddings", "wte.weight")
    yield Place("backbone.position_embedding.position_embeddings", "wpe.weight")
    yield from _pair("backbone.layer_norm", "ln_f", "gamma", "beta")
    for n in range(layers):
        own = f"backbone.transformer_layers.{n}"
        theirs = f"h.{n}"
        yield from _pair(f"{own}._self_attention_layer_norm", f"{theirs}.ln_1", "gamma", "beta")
        yield from _pair(f"{own}._feedforward_layer_norm", f"{theirs}.ln_2", "gamma", "beta")
        for third, name in enumerate(("query", "key", "value")):
            yield from _pair(
                f"{own}.{_ATTENTION}._{name}_dense",
                f"{theirs}.attn.c_attn",
                "kernel",
                "bias",
                third,
            )
        yield from _pair(
            f"{own}.{_ATTENTION}._output_dense", f"{theirs}.attn.c_proj", "kernel", "bias"
        )
        yield from _pair(
            f"{own}._feedforward_intermediate_dense", f"{theirs}.mlp.c_fc", "kernel", "bias"
        )
        yield from _pair(
            f"{own}._feedforward_output_dense", f"{theirs}.mlp.c_proj", "kernel", "bias"
        )


def _pair(
    own: str, theirs: str, weight: str, bias: str, third: int | None = None
) -> Iterator[Place]:
    yield Place(f"{own}.{weight}", f"{theirs}.weight", third)
    yield Place(f"{own}.{bias}", f"{theirs}.bias", third)
