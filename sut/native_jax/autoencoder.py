"""The autoencoder of Stable Diffusion 1 (Rombach et al. 2022). It computes diffusers'
`AutoencoderKL`, and uses its names.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sut.contract import Config
from sut.native_jax.diffusion_blocks import attention, group_norm, resnet, upsample
from sut.native_jax.layers import convolution, dense
from sut.native_jax.runtime import Weights

ENCODER = ("vae/encoder.", "vae/quant_conv.")
DECODER = ("vae/decoder.", "vae/post_quant_conv.")
"""Beginnings of the names of tensors that encode images to latents, and decode latents to images.
"""

_EPSILON = 1e-6
_SCALING = 0.18215
_LATENTS = 4


def encode(config: Config, weights: Weights, images: jax.Array) -> jax.Array:
    """images from -1 to 1 [batch, side, side, 3] → means of latents, scaled, float32 [batch, side /
    8, side / 8, 4].
    """
    x = images.astype(weights["vae/encoder.conv_in.weight"].dtype)
    x = convolution(weights, "vae/encoder.conv_in", x, padding=1)
    last = len(config["vae_channels"]) - 1
    for level in range(last + 1):
        block = f"vae/encoder.down_blocks.{level}"
        for number in range(2):
            x = resnet(weights, f"{block}.resnets.{number}", x, _EPSILON)
        if level < last:
            x = jnp.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)))  # only at the right and below
            x = convolution(weights, f"{block}.downsamplers.0.conv", x, stride=2)
    x = _middle(weights, "vae/encoder", x)
    x = _end(weights, "vae/encoder", x)
    means = dense(weights, "vae/quant_conv", x)[..., :_LATENTS]
    return means.astype(jnp.float32) * _SCALING


def decode(config: Config, weights: Weights, latents: jax.Array) -> jax.Array:
    """latents float32 [batch, side / 8, side / 8, 4] → images from -1 to 1, float32 [batch, side,
    side, 3].
    """
    x = (latents / _SCALING).astype(weights["vae/post_quant_conv.weight"].dtype)
    x = dense(weights, "vae/post_quant_conv", x)
    x = convolution(weights, "vae/decoder.conv_in", x, padding=1)
    x = _middle(weights, "vae/decoder", x)
    last = len(config["vae_channels"]) - 1
    for level in range(last + 1):
        block = f"vae/decoder.up_blocks.{level}"
        for number in range(3):
            x = resnet(weights, f"{block}.resnets.{number}", x, _EPSILON)
        if level < last:
            x = upsample(weights, f"{block}.upsamplers.0", x)
    return _end(weights, "vae/decoder", x).astype(jnp.float32)


def _middle(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """diffusers' `UNetMidBlock2D`: x [batch, height, width, channels] → the same shape. Its
    attention has one head.
    """
    x = resnet(weights, f"{name}.mid_block.resnets.0", x, _EPSILON)
    of_attention = f"{name}.mid_block.attentions.0"
    normed = group_norm(weights, f"{of_attention}.group_norm", x, _EPSILON)
    tokens = normed.reshape(len(x), -1, x.shape[-1])
    mixed = attention(weights, of_attention, tokens, tokens, heads=1)
    x = x + mixed.reshape(x.shape)
    return resnet(weights, f"{name}.mid_block.resnets.1", x, _EPSILON)


def _end(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """Apply the last norm and the last convolution."""
    normed = group_norm(weights, f"{name}.conv_norm_out", x, _EPSILON)
    return convolution(weights, f"{name}.conv_out", jax.nn.silu(normed), padding=1)
