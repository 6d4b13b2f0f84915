"""The table of Segment Anything: the names of Meta's checkpoint → the attributes of KerasHub.

A name that ends in `*` is a layer of Keras. Its `weight` is the layer's transposed kernel or its
scale, and its `bias` follows. Any other name is a variable of the same shape. A number in a path is
a place in a list. Each path begins with one of four names: `encoder` (the image encoder's layers in
their order), `neck`, `prompts` or `decoder`.
"""

from __future__ import annotations

from collections.abc import Mapping


def _within(prefix: str, other: str, table: Mapping[str, str]) -> dict[str, str]:
    """The table of the same names in a part of the model.

    Args:
        prefix, other: the part's name in the checkpoint, and in the other library.
    """
    return {f"{prefix}.{name}": f"{other}.{path}" for name, path in table.items()}


def _three_layers(name: str) -> dict[str, str]:
    """The table of a network of three layers, which has the same name in both."""
    return {f"{name}.layers.{n}.*": f"{name}.mlp_block.layers.{2 * n}" for n in range(3)}


_BLOCK = {
    "norm1.*": "layer_norm1",
    "norm2.*": "layer_norm2",
    "attn.qkv.*": "attention.qkv",
    "attn.proj.*": "attention.projection",
    "attn.rel_pos_h": "attention.add_decomposed_relative_pe.rel_pos_h",
    "attn.rel_pos_w": "attention.add_decomposed_relative_pe.rel_pos_w",
    "mlp.lin1.*": "mlp_block.dense_net.layers.0",
    "mlp.lin2.*": "mlp_block.dense_net.layers.2",
}
_PROMPTS = {
    "pe_layer.positional_encoding_gaussian_matrix": (
        "positional_embedding_layer.positional_encoding_gaussian_matrix"
    ),
    "point_embeddings.0.weight": "background_point_embed.embeddings",
    "point_embeddings.1.weight": "foreground_point_embed.embeddings",
    "point_embeddings.2.weight": "top_left_corner_embed.embeddings",
    "point_embeddings.3.weight": "bottom_right_corner_embed.embeddings",
    "not_a_point_embed.weight": "not_a_point_embed.embeddings",
    "no_mask_embed.weight": "no_mask_embed.embeddings",
    **{f"mask_downscaling.{n}.*": f"mask_downscaler.layers.{n}" for n in (0, 1, 3, 4, 6)},
}
_ATTENTION = {
    "q_proj.*": "query_proj",
    "k_proj.*": "key_proj",
    "v_proj.*": "value_proj",
    "out_proj.*": "out_proj",
}
_TWO_WAY = {
    **_within("self_attn", "self_attention", _ATTENTION),
    **_within("cross_attn_token_to_image", "cross_attention_token_to_image", _ATTENTION),
    **_within("cross_attn_image_to_token", "cross_attention_image_to_token", _ATTENTION),
    **{f"norm{n}.*": f"layer_norm{n}" for n in (1, 2, 3, 4)},
    "mlp.lin1.*": "mlp_block.mlp_block.layers.0",
    "mlp.lin2.*": "mlp_block.mlp_block.layers.2",
}
_DECODER = {
    **_within("transformer.layers.0", "transformer.layers.0", _TWO_WAY),
    **_within("transformer.layers.1", "transformer.layers.1", _TWO_WAY),
    **_within(
        "transformer.final_attn_token_to_image",
        "transformer.final_attention_token_to_image",
        _ATTENTION,
    ),
    "transformer.norm_final_attn.*": "transformer.final_layer_norm",
    "iou_token.weight": "iou_token.embeddings",
    "mask_tokens.weight": "mask_tokens.embeddings",
    **{f"output_upscaling.{n}.*": f"output_upscaling.layers.{n}" for n in (0, 1, 3)},
    **_three_layers("output_hypernetworks_mlps.0"),
    **_three_layers("output_hypernetworks_mlps.1"),
    **_three_layers("output_hypernetworks_mlps.2"),
    **_three_layers("output_hypernetworks_mlps.3"),
    **_three_layers("iou_prediction_head"),
}
# Layers of KerasHub's image encoder before its blocks: the input, and the two layers that embed
# patches and their places.
_BEFORE = 3


def keras_hub(layers: int) -> dict[str, str]:
    """Meta's name → KerasHub's attribute, for an image encoder with this number of layers."""
    table = {
        "image_encoder.patch_embed.proj.*": f"encoder.{_BEFORE - 2}.projection",
        "image_encoder.pos_embed": f"encoder.{_BEFORE - 1}.pos_embed",
    }
    for layer in range(layers):
        table |= _within(f"image_encoder.blocks.{layer}", f"encoder.{_BEFORE + layer}", _BLOCK)
    for n in range(4):
        table[f"image_encoder.neck.{n}.*"] = f"neck.layers.{n}"
    table |= _within("prompt_encoder", "prompts", _PROMPTS)
    table |= _within("mask_decoder", "decoder", _DECODER)
    return table
