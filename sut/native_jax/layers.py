"""Layers that native JAX files share. Each is a function of all weights and of the layer's name."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sut.native_jax.runtime import Weights


def dense(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    """x [..., in] → [..., out], with the bias if there is one."""
    product = x @ weights[f"{name}.weight"]
    return product + weights[f"{name}.bias"] if f"{name}.bias" in weights else product


@jax.named_scope("norm")
def norm(weights: Weights, name: str, x: jax.Array, epsilon: float) -> jax.Array:
    """Layer normalisation over the last axis, computed in float32."""
    wide = x.astype(jnp.float32)
    centered = wide - wide.mean(-1, keepdims=True)
    wide = centered * jax.lax.rsqrt(wide.var(-1, keepdims=True) + epsilon)
    normed = wide * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return normed.astype(x.dtype)
