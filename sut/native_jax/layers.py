"""Layers that several native JAX files have in common. Each is a function of all weights and the name of its own."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sut.native_jax.runtime import Weights

_LAYOUT = ("NHWC", "HWIO", "NHWC")


def dense(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """x [..., in] → [..., out]; with a bias where there is one."""
    product = x @ weights[f"{name}.weight"]
    return product + weights[f"{name}.bias"] if f"{name}.bias" in weights else product


def convolution(weights: Weights, name: str, x: jax.Array, stride: int = 1, padding: int = 0) -> jax.Array:
    """x [batch, height, width, in] → [batch, height', width', out]; `padding`: zeros on each side."""
    kernel = weights[f"{name}.weight"]
    made = jax.lax.conv_general_dilated(x, kernel, (stride, stride), [(padding, padding)] * 2, dimension_numbers=_LAYOUT)
    return made + weights[f"{name}.bias"] if f"{name}.bias" in weights else made


def norm(weights: Weights, name: str, x: jax.Array, epsilon: float) -> jax.Array:
    """Layer normalisation over the last axis, computed in float32."""
    wide = x.astype(jnp.float32)
    wide = (wide - wide.mean(-1, keepdims=True)) * jax.lax.rsqrt(wide.var(-1, keepdims=True) + epsilon)
    return wide.astype(x.dtype) * weights[f"{name}.weight"] + weights[f"{name}.bias"]
