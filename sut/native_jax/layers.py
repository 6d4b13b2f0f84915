"""Layers that native JAX files share. Each is a function of all weights and of the layer's name."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sut.native_jax.runtime import Weights

_LAYOUT = ("NHWC", "HWIO", "NHWC")


def dense(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """x [..., in] → [..., out], with the bias if there is one."""
    product = x @ weights[f"{name}.weight"]
    return product + weights[f"{name}.bias"] if f"{name}.bias" in weights else product


def convolution(
    weights: Weights, name: str, x: jax.Array, stride: int = 1, padding: int = 0
) -> jax.Array:
    """x [batch, height, width, in] → [batch, height', width', out]; `padding`: zeros on each
    side.
    """
    kernel = weights[f"{name}.weight"]
    made = jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), [(padding, padding)] * 2, dimension_numbers=_LAYOUT
    )
    return made + weights[f"{name}.bias"] if f"{name}.bias" in weights else made


def norm(weights: Weights, name: str, x: jax.Array, epsilon: float) -> jax.Array:
    """Layer normalisation over the last axis, computed in float32."""
    wide = x.astype(jnp.float32)
    centered = wide - wide.mean(-1, keepdims=True)
    wide = centered * jax.lax.rsqrt(wide.var(-1, keepdims=True) + epsilon)
    normed = wide * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return normed.astype(x.dtype)


def attend(
    query: jax.Array, key: jax.Array, value: jax.Array, heads: int, mask: jax.Array | None = None
) -> jax.Array:
    """Attention of several heads (Vaswani et al. 2017), its softmax in float32 → [batch, queries,
    width].

    Args:
        query: [batch, queries, width]; key and value: [batch, keys, width].
        mask: bool [queries, keys], whether a query looks at a key.
    """
    q, k, v = [x.reshape(*x.shape[:2], heads, -1) for x in (query, key, value)]
    # The queries are scaled, because they are the smaller array.
    scaled = q * q.shape[-1] ** -0.5
    scores = jnp.einsum("bqhd,bkhd->bhqk", scaled, k).astype(jnp.float32)
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
    shares = jax.nn.softmax(scores).astype(v.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(query.shape)
