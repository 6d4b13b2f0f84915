"""The UNet of Stable Diffusion 1 (Rombach et al. 2022). It computes diffusers'
`UNet2DConditionModel`, and uses its names.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from sut.contract import Config
from sut.native_jax.diffusion_blocks import attention, group_norm, resnet, upsample
from sut.native_jax.layers import convolution, dense, norm
from sut.native_jax.runtime import Weights

_EPSILON = 1e-5
_EPSILON_OF_TRANSFORMER = 1e-6  # only of its group norm


def time_embedding(weights: Weights, waves: jax.Array) -> jax.Array:
    """waves [steps, channels] → the embedding of each step [steps, 4 channels], after the
    activation with which every resnet begins.
    """
    inner = jax.nn.silu(dense(weights, "unet/time_embedding.linear_1", waves))
    return jax.nn.silu(dense(weights, "unet/time_embedding.linear_2", inner))


def predict_noise(
    config: Config, weights: Weights, x: jax.Array, time: jax.Array, context: jax.Array
) -> jax.Array:
    """x [batch, side, side, 4] → the noise in x, of the same shape.

    Args:
        time: a row of `time_embedding`.
        context: the encoded prompts [batch, length, hidden].
    """
    blocks = partial(_block, weights, time=time, context=context, heads=config["unet_heads"])
    levels = range(len(config["unet_channels"]))
    x = convolution(weights, "unet/conv_in", x, padding=1)
    skips = [x]
    for level in levels:
        for number in range(2):
            x = blocks(f"unet/down_blocks.{level}", number, x)
            skips.append(x)
        if level != levels[-1]:
            name = f"unet/down_blocks.{level}.downsamplers.0.conv"
            x = convolution(weights, name, x, stride=2, padding=1)
            skips.append(x)
    x = blocks("unet/mid_block", 0, x)
    x = blocks("unet/mid_block", 1, x)
    for level in levels:
        for number in range(3):
            x = jnp.concatenate([x, skips.pop()], axis=-1)
            x = blocks(f"unet/up_blocks.{level}", number, x)
        if level != levels[-1]:
            x = upsample(weights, f"unet/up_blocks.{level}.upsamplers.0", x)
    x = jax.nn.silu(group_norm(weights, "unet/conv_norm_out", x, _EPSILON))
    return convolution(weights, "unet/conv_out", x, padding=1)


def _block(
    weights: Weights,
    name: str,
    number: int,
    x: jax.Array,
    time: jax.Array,
    context: jax.Array,
    heads: int,
) -> jax.Array:
    """Run one resnet of a block, and the transformer after it if there is one."""
    x = resnet(weights, f"{name}.resnets.{number}", x, _EPSILON, time)
    transformer = f"{name}.attentions.{number}"
    if f"{transformer}.norm.weight" not in weights:
        return x
    return _transformer(weights, transformer, x, context, heads)


def _transformer(
    weights: Weights, name: str, x: jax.Array, context: jax.Array, heads: int
) -> jax.Array:
    """diffusers' `Transformer2DModel` of one block: x [batch, height, width, channels] → the same
    shape.

    Its first and last layers are convolutions of one pixel. The block ends with a GEGLU (Shazeer
    2020).
    """
    block = f"{name}.transformer_blocks.0"
    normed = partial(norm, weights, epsilon=_EPSILON)
    inner = group_norm(weights, f"{name}.norm", x, _EPSILON_OF_TRANSFORMER)
    tokens = dense(weights, f"{name}.proj_in", inner).reshape(len(x), -1, x.shape[-1])
    inner = normed(f"{block}.norm1", tokens)
    tokens = tokens + attention(weights, f"{block}.attn1", inner, inner, heads)
    inner = normed(f"{block}.norm2", tokens)
    tokens = tokens + attention(weights, f"{block}.attn2", inner, context, heads)
    inner = normed(f"{block}.norm3", tokens)
    inner = dense(weights, f"{block}.ff.net.0.proj", inner)
    inner, gate = jnp.split(inner, 2, axis=-1)
    inner = inner * jax.nn.gelu(gate, approximate=False)
    tokens = tokens + dense(weights, f"{block}.ff.net.2", inner)
    return x + dense(weights, f"{name}.proj_out", tokens.reshape(x.shape))
