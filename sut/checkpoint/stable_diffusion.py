"""Tables of Stable Diffusion: the names of diffusers' and Transformers' tensors → the attributes of
KerasCV's networks.

A name that ends in `*` is a layer of Keras, as in `sut.checkpoint.sam`. Each path begins with a
network (`text_encoder`, `unet`, `decoder` or `encoder`) and a class of layers in it. The number
after the class counts its layers in the order in which the network runs them. The VAE's encoder has
its own table, because it creates no image.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

_LAYER = {"*": ""}
_CONVOLUTION = {"*": "conv2d"}
_UPSAMPLING = {"conv.*": "conv.conv2d"}
_ENCODER_LAYER = {
    **{f"self_attn.{name}_proj.*": f"clip_attn.{name}_proj" for name in ("q", "k", "v", "out")},
    "layer_norm1.*": "layer_norm1",
    "layer_norm2.*": "layer_norm2",
    "mlp.fc1.*": "fc1",
    "mlp.fc2.*": "fc2",
}
_RESNET = {
    "norm1.*": "entry_flow.0",
    "conv1.*": "entry_flow.2.conv2d",
    "time_emb_proj.*": "embedding_flow.1",
    "norm2.*": "exit_flow.0",
    "conv2.*": "exit_flow.2.conv2d",
    "conv_shortcut.*": "residual_projection.conv2d",
}
_TRANSFORMER = {
    "norm.*": "norm",
    "proj_in.*": "proj1.conv2d",
    "proj_out.*": "proj2.conv2d",
    "transformer_blocks.0.norm1.*": "transformer_block.norm1",
    "transformer_blocks.0.norm2.*": "transformer_block.norm2",
    "transformer_blocks.0.norm3.*": "transformer_block.norm3",
    "transformer_blocks.0.attn1.to_q.*": "transformer_block.attn1.to_q",
    "transformer_blocks.0.attn1.to_k.*": "transformer_block.attn1.to_k",
    "transformer_blocks.0.attn1.to_v.*": "transformer_block.attn1.to_v",
    "transformer_blocks.0.attn2.to_q.*": "transformer_block.attn2.to_q",
    "transformer_blocks.0.attn2.to_k.*": "transformer_block.attn2.to_k",
    "transformer_blocks.0.attn2.to_v.*": "transformer_block.attn2.to_v",
    "transformer_blocks.0.attn1.to_out.0.*": "transformer_block.attn1.out_proj",
    "transformer_blocks.0.attn2.to_out.0.*": "transformer_block.attn2.out_proj",
    "transformer_blocks.0.ff.net.0.proj.*": "transformer_block.geglu.dense",
    "transformer_blocks.0.ff.net.2.*": "transformer_block.dense",
}
_RESNET_OF_VAE = {
    "norm1.*": "norm1",
    "conv1.*": "conv1.conv2d",
    "norm2.*": "norm2",
    "conv2.*": "conv2.conv2d",
    "conv_shortcut.*": "residual_projection.conv2d",
}
_ATTENTION_OF_VAE = {
    "group_norm.*": "norm",
    "to_q.*": "q.conv2d",
    "to_k.*": "k.conv2d",
    "to_v.*": "v.conv2d",
    "to_out.0.*": "proj_out.conv2d",
    # diffusers used these names until May 2023. Folders published before then have them.
    "query.*": "q.conv2d",
    "key.*": "k.conv2d",
    "value.*": "v.conv2d",
    "proj_attn.*": "proj_out.conv2d",
}


def keras_cv(tensors: Collection[str], layers: int) -> dict[str, str]:
    """Name → KerasCV's attribute, for the names that a checkpoint with these tensors has.

    Args:
        layers: number of layers of the text encoder.
    """
    prefixed = any(name.startswith("text_encoder/text_model.") for name in tensors)
    text = "text_encoder/text_model." if prefixed else "text_encoder/"
    text_layers = [f"{text}encoder.layers.{n}." for n in range(layers)]
    down = [f"unet/down_blocks.{n}.downsamplers.0.conv." for n in range(3)]
    up = [f"unet/up_blocks.{n}.upsamplers.0." for n in range(3)]
    up_of_vae = [f"vae/decoder.up_blocks.{n}.upsamplers.0.conv." for n in range(3)]
    time = ["unet/time_embedding.linear_1.", "unet/time_embedding.linear_2."]
    resnets = _blocks("unet/", "resnets", range(4), range(4), middle=2)
    attentions = _blocks("unet/", "attentions", range(3), range(1, 4), middle=1)
    resnets_of_vae = _blocks("vae/decoder.", "resnets", (), range(4), middle=2)
    convolutions_of_vae = [
        "vae/post_quant_conv.",
        "vae/decoder.conv_in.",
        *up_of_vae,
        "vae/decoder.conv_out.",
    ]
    table = {
        f"{text}embeddings.token_embedding.weight": (
            "text_encoder.CLIPEmbedding.0.token_embedding.embeddings"
        ),
        f"{text}embeddings.position_embedding.weight": (
            "text_encoder.CLIPEmbedding.0.position_embedding.embeddings"
        ),
        **_of("text_encoder.CLIPEncoderLayer", _ENCODER_LAYER, text_layers),
        **_of("text_encoder.LayerNormalization", _LAYER, [f"{text}final_layer_norm."]),
        **_of("unet.Dense", _LAYER, time),
        **_of("unet.PaddedConv2D", _CONVOLUTION, ["unet/conv_in.", *down, "unet/conv_out."]),
        **_of("unet.ResBlock", _RESNET, resnets),
        **_of("unet.SpatialTransformer", _TRANSFORMER, attentions),
        **_of("unet.Upsample", _UPSAMPLING, up),
        **_of("unet.GroupNormalization", _LAYER, ["unet/conv_norm_out."]),
        **_of("decoder.PaddedConv2D", _CONVOLUTION, convolutions_of_vae),
        **_of("decoder.ResnetBlock", _RESNET_OF_VAE, resnets_of_vae),
        **_of("decoder.AttentionBlock", _ATTENTION_OF_VAE, ["vae/decoder.mid_block.attentions.0."]),
        **_of("decoder.GroupNormalization", _LAYER, ["vae/decoder.conv_norm_out."]),
    }
    return _existing(table, tensors)


def keras_cv_encoder(tensors: Collection[str]) -> dict[str, str]:
    """The same table for the VAE's encoder and the convolution after it, which is a layer of
    KerasCV's encoder.
    """
    down = [f"vae/encoder.down_blocks.{n}.downsamplers.0.conv." for n in range(3)]
    convolutions = ["vae/encoder.conv_in.", *down, "vae/encoder.conv_out.", "vae/quant_conv."]
    resnets = _blocks("vae/encoder.", "resnets", range(4), (), middle=2)
    table = {
        **_of("encoder.PaddedConv2D", _CONVOLUTION, convolutions),
        **_of("encoder.ResnetBlock", _RESNET_OF_VAE, resnets),
        **_of("encoder.AttentionBlock", _ATTENTION_OF_VAE, ["vae/encoder.mid_block.attentions.0."]),
        **_of("encoder.GroupNormalization", _LAYER, ["vae/encoder.conv_norm_out."]),
    }
    return _existing(table, tensors)


def _existing(table: Mapping[str, str], tensors: Collection[str]) -> dict[str, str]:
    return {name: path for name, path in table.items() if name.replace("*", "weight") in tensors}


def _of(kind: str, parts: Mapping[str, str], prefixes: Iterable[str]) -> dict[str, str]:
    """The table of all layers of one kind.

    Args:
        parts: the table of one layer.
        prefixes: the beginning of each layer's names, in the order in which the layers run.
    """
    table = {}
    for number, prefix in enumerate(prefixes):
        for name, path in parts.items():
            table[f"{prefix}{name}"] = f"{kind}.{number}.{path}".rstrip(".")
    return table


def _blocks(
    prefix: str, kind: str, down: Iterable[int], up: Iterable[int], middle: int
) -> list[str]:
    """Prefixes of blocks: two on each level on the way down, three on the way up."""
    blocks = []
    for level in down:
        blocks += [f"{prefix}down_blocks.{level}.{kind}.{n}." for n in range(2)]
    blocks += [f"{prefix}mid_block.{kind}.{n}." for n in range(middle)]
    for level in up:
        blocks += [f"{prefix}up_blocks.{level}.{kind}.{n}." for n in range(3)]
    return blocks
