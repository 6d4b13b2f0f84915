"""Blocks that the networks of Stable Diffusion share. They compute diffusers' blocks, and use its
names. Images have their channels last.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sut.contract import Workload
from sut.native_jax import runtime
from sut.native_jax.layers import attend, convolution, dense
from sut.native_jax.runtime import Weights

_GROUPS = 32
# Some folders leave out a prefix of the text encoder's names. Folders from before May 2023 have
# other names in the autoencoder.
_RENAMED = {
    "/text_model.": "/",
    ".query.": ".to_q.",
    ".key.": ".to_k.",
    ".value.": ".to_v.",
    ".proj_attn.": ".to_out.0.",
}


def load_weights(workload: Workload, begins: tuple[str, ...]) -> dict[str, jax.Array]:
    """See `runtime.load_weights`. The names are today's, without the text encoder's prefix."""
    weights = runtime.load_weights(
        workload, begins, is_table=lambda name: name.endswith("_embedding.weight")
    )
    return {_today(name): values for name, values in weights.items()}


def _today(name: str) -> str:
    for old, new in _RENAMED.items():
        name = name.replace(old, new)
    return name


def group_norm(weights: Weights, name: str, x: jax.Array, epsilon: float) -> jax.Array:
    """Group normalisation (Wu & He 2018) of x [batch, height, width, channels], computed in
    float32.
    """
    wide = x.astype(jnp.float32).reshape(len(x), -1, _GROUPS, x.shape[-1] // _GROUPS)
    wide = wide - wide.mean((1, 3), keepdims=True)
    variance = (wide**2).mean((1, 3), keepdims=True)
    wide = wide * jax.lax.rsqrt(variance + epsilon)
    normed = wide.reshape(x.shape) * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return normed.astype(x.dtype)


def resnet(
    weights: Weights, name: str, x: jax.Array, epsilon: float, time: jax.Array | None = None
) -> jax.Array:
    """diffusers' `ResnetBlock2D`: x [batch, height, width, in] → [batch, height, width, out].

    Args:
        time: the step's embedding after its activation [size]. The autoencoder has none.
    """
    inner = jax.nn.silu(group_norm(weights, f"{name}.norm1", x, epsilon))
    inner = convolution(weights, f"{name}.conv1", inner, padding=1)
    if time is not None:
        inner = inner + dense(weights, f"{name}.time_emb_proj", time)
    inner = jax.nn.silu(group_norm(weights, f"{name}.norm2", inner, epsilon))
    inner = convolution(weights, f"{name}.conv2", inner, padding=1)
    if f"{name}.conv_shortcut.weight" in weights:
        # A convolution of one pixel is a dense layer: its weight [1, 1, in, out] is one matrix.
        x = dense(weights, f"{name}.conv_shortcut", x)
    return inner + x


def upsample(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """Repeat each pixel four times, then apply a convolution: x [batch, height, width, channels] →
    [batch, 2 height, 2 width, channels].
    """
    batch, height, width, channels = x.shape
    fourfold = jnp.broadcast_to(x[:, :, None, :, None], (batch, height, 2, width, 2, channels))
    larger = fourfold.reshape(batch, 2 * height, 2 * width, channels)
    return convolution(weights, f"{name}.conv", larger, padding=1)


def attention(
    weights: Weights, name: str, x: jax.Array, context: jax.Array, heads: int
) -> jax.Array:
    """diffusers' `Attention`: x [batch, queries, width], context [batch, keys, size] → [batch,
    queries, width].
    """
    query = dense(weights, f"{name}.to_q", x)
    key = dense(weights, f"{name}.to_k", context)
    value = dense(weights, f"{name}.to_v", context)
    return dense(weights, f"{name}.to_out.0", attend(query, key, value, heads))
