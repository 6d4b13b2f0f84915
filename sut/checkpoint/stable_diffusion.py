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
    **{f"transformer_blocks.0.norm{n}.*": f"transformer_block.norm{n}" for n in (1, 2, 3)},
    **{
        f"transformer_blocks.0.attn{n}.to_{x}.*": f"transformer_block.attn{n}.to_{x}"
        for n in (1, 2)
        for x in "qkv"
    },
    **{
        f"transformer_blocks.0.attn{n}.to_out.0.*": f"transformer_block.attn{n}.out_proj"
        for n in (1, 2)
    },
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
    **{f"to_{x}.*": f"{x}.conv2d" for x in "qkv"},
    "to_out.0.*": "proj_out.conv2d",
    # diffusers used these names until May 2023. Folders published before then have them.
    **{f"{old}.*": f"{old[0]}.conv2d" for old in ("query", "key", "value")},
    "proj_attn.*": "proj_out.conv2d",
}


def keras_cv(tensors: Collection[str], layers: int) -> dict[str, str]:
    """Name → KerasCV's attribute, for the names that a checkpoint with these tensors has.

    Args:
        layers: number of layers of the text encoder.
    """
    prefixed = any(name.startswith("text_encoder/text_model.") for name in tensors)
    text = "text_encoder/text_model." if prefixed else "text_encoder/"
    table = {
        f"{text}embeddings.token_embedding.weight": (
            "text_encoder.CLIPEmbedding.0.token_embedding.embeddings"
        ),
        f"{text}embeddings.position_embedding.weight": (
            "text_encoder.CLIPEmbedding.0.position_embedding.embeddings"
        ),
        **_of(
            "text_encoder.CLIPEncoderLayer",
            _ENCODER_LAYER,
            [f"{text}encoder.layers.{n}." for n in range(layers)],
        ),
        **_of("text_encoder.LayerNormalization", _LAYER, [f"{text}final_layer_norm."]),
        **_of("unet.Dense", _LAYER, [f"unet/time_embedding.linear_{n}." for n in (1, 2)]),
        **_of(
            "unet.PaddedConv2D",
            _CONVOLUTION,
            [
                "unet/conv_in.",
                *(f"unet/down_blocks.{n}.downsamplers.0.conv." for n in range(3)),
                "unet/conv_out.",
            ],
        ),
        **_of("unet.ResBlock", _RESNET, _blocks("unet/", "resnets", range(4), range(4), middle=2)),
        **_of(
            "unet.SpatialTransformer",
            _TRANSFORMER,
            _blocks("unet/", "attentions", range(3), range(1, 4), middle=1),
        ),
        **_of(
            "unet.Upsample", _UPSAMPLING, [f"unet/up_blocks.{n}.upsamplers.0." for n in range(3)]
        ),
        **_of("unet.GroupNormalization", _LAYER, ["unet/conv_norm_out."]),
        **_of(
            "decoder.PaddedConv2D",
            _CONVOLUTION,
            [
                "vae/post_quant_conv.",
                "vae/decoder.conv_in.",
                *(f"vae/decoder.up_blocks.{n}.upsamplers.0.conv." for n in range(3)),
                "vae/decoder.conv_out.",
            ],
        ),
        **_of(
            "decoder.ResnetBlock",
            _RESNET_OF_VAE,
            _blocks("vae/decoder.", "resnets", (), range(4), middle=2),
        ),
        **_of("decoder.AttentionBlock", _ATTENTION_OF_VAE, ["vae/decoder.mid_block.attentions.0."]),
        **_of("decoder.GroupNormalization", _LAYER, ["vae/decoder.conv_norm_out."]),
    }
    return _there(table, tensors)


def keras_cv_encoder(tensors: Collection[str]) -> dict[str, str]:
    """The same table for the VAE's encoder and the convolution after it, which is a layer of
    KerasCV's encoder.
    """
    down = [f"vae/encoder.down_blocks.{n}.downsamplers.0.conv." for n in range(3)]
    table = {
        **_of(
            "encoder.PaddedConv2D",
            _CONVOLUTION,
            ["vae/encoder.conv_in.", *down, "vae/encoder.conv_out.", "vae/quant_conv."],
        ),
        **_of(
            "encoder.ResnetBlock",
            _RESNET_OF_VAE,
            _blocks("vae/encoder.", "resnets", range(4), (), middle=2),
        ),
        **_of("encoder.AttentionBlock", _ATTENTION_OF_VAE, ["vae/encoder.mid_block.attentions.0."]),
        **_of("encoder.GroupNormalization", _LAYER, ["vae/encoder.conv_norm_out."]),
    }
    return _there(table, tensors)


def _there(table: Mapping[str, str], tensors: Collection[str]) -> dict[str, str]:
    return {name: path for name, path in table.items() if name.replace("*", "weight") in tensors}


def _of(kind: str, parts: Mapping[str, str], prefixes: Iterable[str]) -> dict[str, str]:
    return {
        f"{prefix}{a}": f"{kind}.{n}.{b}".rstrip(".")
        for n, prefix in enumerate(prefixes)
        for a, b in parts.items()
    }


def _blocks(
    prefix: str, kind: str, down: Iterable[int], up: Iterable[int], middle: int
) -> list[str]:
    """Prefixes of blocks: two on each level on the way down, three on the way up."""
    return [
        *(f"{prefix}down_blocks.{level}.{kind}.{n}." for level in down for n in range(2)),
        *(f"{prefix}mid_block.{kind}.{n}." for n in range(middle)),
        *(f"{prefix}up_blocks.{level}.{kind}.{n}." for level in up for n in range(3)),
    ]
