"""Stable Diffusion 1: the parts of diffusers' folder, the names and shapes of their tensors, and
their config.json.

All is derived from a size's configuration: `hidden_size`, `num_hidden_layers` and
`num_attention_heads` of the text encoder, `unet_channels` and `unet_heads`, `vae_channels`,
`image_size`. As in all published versions, UNet and VAE have four levels of resolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from formats.workload import Config
from harness.inputs.models.drawn import Parts, Shape, Shapes

_LATENTS = 4
_COLOURS = 3
_Named = Iterator[tuple[str, Shape]]


def shapes(config: Config) -> Shapes:
    """`part/tensor` → shape, under the names of diffusers and Transformers."""
    tensors = [*_text_encoder(config), *_unet(config), *_vae(config["vae_channels"])]
    return dict(tensors)


def _layer(name: str, *shape: int, bias: bool = True) -> _Named:
    yield f"{name}.weight", shape
    if bias:
        yield f"{name}.bias", shape[:1]


def _convolution(name: str, into: int, out: int, side: int = 3) -> _Named:
    yield from _layer(name, out, into, side, side)


def _text_encoder(config: Config) -> _Named:
    model = "text_encoder/text_model"
    width = config["hidden_size"]
    positions = config["max_position_embeddings"]
    yield f"{model}.embeddings.token_embedding.weight", (config["vocab_size"], width)
    yield f"{model}.embeddings.position_embedding.weight", (positions, width)
    for n in range(config["num_hidden_layers"]):
        layer = f"{model}.encoder.layers.{n}"
        for name in ("q", "k", "v", "out"):
            yield from _layer(f"{layer}.self_attn.{name}_proj", width, width)
        yield from _layer(f"{layer}.layer_norm1", width)
        yield from _layer(f"{layer}.mlp.fc1", 4 * width, width)
        yield from _layer(f"{layer}.mlp.fc2", width, 4 * width)
        yield from _layer(f"{layer}.layer_norm2", width)
    yield from _layer(f"{model}.final_layer_norm", width)


def _resnet(name: str, into: int, out: int, time: int = 0) -> _Named:
    yield from _layer(f"{name}.norm1", into)
    yield from _convolution(f"{name}.conv1", into, out)
    if time:
        yield from _layer(f"{name}.time_emb_proj", out, time)
    yield from _layer(f"{name}.norm2", out)
    yield from _convolution(f"{name}.conv2", out, out)
    if into != out:
        yield from _convolution(f"{name}.conv_shortcut", into, out, side=1)


def _attention(name: str, width: int, context: int, bias: bool = False) -> _Named:
    yield from _layer(f"{name}.to_q", width, width, bias=bias)
    yield from _layer(f"{name}.to_k", width, context, bias=bias)
    yield from _layer(f"{name}.to_v", width, context, bias=bias)
    yield from _layer(f"{name}.to_out.0", width, width)


def _transformer(name: str, width: int, context: int) -> _Named:
    block = f"{name}.transformer_blocks.0"
    yield from _layer(f"{name}.norm", width)
    yield from _convolution(f"{name}.proj_in", width, width, side=1)
    yield from _layer(f"{block}.norm1", width)
    yield from _attention(f"{block}.attn1", width, width)
    yield from _layer(f"{block}.norm2", width)
    yield from _attention(f"{block}.attn2", width, context)
    yield from _layer(f"{block}.norm3", width)
    yield from _layer(f"{block}.ff.net.0.proj", 8 * width, width)
    yield from _layer(f"{block}.ff.net.2", width, 4 * width)
    yield from _convolution(f"{name}.proj_out", width, width, side=1)


def _unet(config: Config) -> _Named:
    channels = config["unet_channels"]
    context = config["hidden_size"]
    last = len(channels) - 1
    width = channels[0]
    time = 4 * width
    skips = [width]
    yield from _convolution("unet/conv_in", _LATENTS, width)
    yield from _layer("unet/time_embedding.linear_1", time, width)
    yield from _layer("unet/time_embedding.linear_2", time, time)
    for level, out in enumerate(channels):
        block = f"unet/down_blocks.{level}"
        for n in range(2):
            yield from _resnet(f"{block}.resnets.{n}", width, out, time)
            if level < last:
                yield from _transformer(f"{block}.attentions.{n}", out, context)
            width = out
            skips.append(width)
        if level < last:
            yield from _convolution(f"{block}.downsamplers.0.conv", width, width)
            skips.append(width)
    yield from _resnet("unet/mid_block.resnets.0", width, width, time)
    yield from _transformer("unet/mid_block.attentions.0", width, context)
    yield from _resnet("unet/mid_block.resnets.1", width, width, time)
    for level, out in enumerate(reversed(channels)):
        block = f"unet/up_blocks.{level}"
        for n in range(3):
            yield from _resnet(f"{block}.resnets.{n}", width + skips.pop(), out, time)
            if level:
                yield from _transformer(f"{block}.attentions.{n}", out, context)
            width = out
        if level < last:
            yield from _convolution(f"{block}.upsamplers.0.conv", width, width)
    yield from _layer("unet/conv_norm_out", width)
    yield from _convolution("unet/conv_out", width, _LATENTS)


def _vae(channels: list[int]) -> _Named:
    yield from _convolution("vae/encoder.conv_in", _COLOURS, channels[0])
    yield from _levels("vae/encoder", "down", channels, blocks=2)
    yield from _middle("vae/encoder", channels[-1])
    yield from _layer("vae/encoder.conv_norm_out", channels[-1])
    yield from _convolution("vae/encoder.conv_out", channels[-1], 2 * _LATENTS)
    yield from _convolution("vae/quant_conv", 2 * _LATENTS, 2 * _LATENTS, side=1)
    yield from _convolution("vae/post_quant_conv", _LATENTS, _LATENTS, side=1)
    yield from _convolution("vae/decoder.conv_in", _LATENTS, channels[-1])
    yield from _middle("vae/decoder", channels[-1])
    yield from _levels("vae/decoder", "up", channels[::-1], blocks=3)
    yield from _layer("vae/decoder.conv_norm_out", channels[0])
    yield from _convolution("vae/decoder.conv_out", channels[0], _COLOURS)


def _levels(name: str, direction: str, channels: list[int], blocks: int) -> _Named:
    width = channels[0]
    for level, out in enumerate(channels):
        block = f"{name}.{direction}_blocks.{level}"
        for n in range(blocks):
            yield from _resnet(f"{block}.resnets.{n}", width, out)
            width = out
        if level < len(channels) - 1:
            yield from _convolution(f"{block}.{direction}samplers.0.conv", width, width)


def _middle(name: str, width: int) -> _Named:
    yield from _resnet(f"{name}.mid_block.resnets.0", width, width)
    yield from _layer(f"{name}.mid_block.attentions.0.group_norm", width)
    yield from _attention(f"{name}.mid_block.attentions.0", width, width, bias=True)
    yield from _resnet(f"{name}.mid_block.resnets.1", width, width)


def configs(config: Config) -> dict[str, dict[str, Any]]:
    """Part → its config.json, in the names of diffusers and Transformers."""
    width = config["hidden_size"]
    side = config["image_size"]
    return {
        "text_encoder": {
            "model_type": "clip_text_model",
            "architectures": ["CLIPTextModel"],
            "vocab_size": config["vocab_size"],
            "hidden_size": width,
            "intermediate_size": 4 * width,
            "num_hidden_layers": config["num_hidden_layers"],
            "num_attention_heads": config["num_attention_heads"],
            "max_position_embeddings": config["max_position_embeddings"],
            "hidden_act": "quick_gelu",
            "layer_norm_eps": 1e-5,
            "bos_token_id": config["bos_token_id"],
            "eos_token_id": config["eos_token_id"],
            "pad_token_id": config["pad_token_id"],
        },
        "unet": {
            "_class_name": "UNet2DConditionModel",
            "sample_size": side // 8,
            "in_channels": _LATENTS,
            "out_channels": _LATENTS,
            "down_block_types": [*["CrossAttnDownBlock2D"] * 3, "DownBlock2D"],
            "up_block_types": ["UpBlock2D", *["CrossAttnUpBlock2D"] * 3],
            "block_out_channels": config["unet_channels"],
            "attention_head_dim": config["unet_heads"],  # diffusers' name of the number of heads
            "cross_attention_dim": width,
        },
        "vae": {
            "_class_name": "AutoencoderKL",
            "sample_size": side,
            "in_channels": _COLOURS,
            "out_channels": _COLOURS,
            "latent_channels": _LATENTS,
            "down_block_types": ["DownEncoderBlock2D"] * 4,
            "up_block_types": ["UpDecoderBlock2D"] * 4,
            "block_out_channels": config["vae_channels"],
            "layers_per_block": 2,
            "scaling_factor": 0.18215,
        },
    }


PARTS = Parts(
    shapes=shapes,
    configs=configs,
    files={
        "text_encoder": "model.safetensors",
        "unet": "diffusion_pytorch_model.safetensors",
        "vae": "diffusion_pytorch_model.safetensors",
    },
)
