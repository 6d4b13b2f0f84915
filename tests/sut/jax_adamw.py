"""Runs in native JAX's environment: five steps of its AdamW. `python -m tests.sut.jax_adamw SPEC.json`.

The specification has the constants and the file that holds `weight` and `gradients`. Beside it, steps.npz gets the weight after each step.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from sut.native_jax.training import adamw

specification = Path(sys.argv[1])
spec = json.loads(specification.read_text())
with np.load(spec["arrays"]) as f:
    weight, gradients = jnp.asarray(f["weight"]), f["gradients"]
state, weights = (weight, jnp.zeros_like(weight), jnp.zeros_like(weight)), []
for number, gradient in enumerate(gradients):
    weight, *moments = state
    state = adamw(spec["constants"], jnp.float32(spec["rate"]), jnp.int32(number + 1), weight, jnp.asarray(gradient), *moments)
    weights.append(np.asarray(state[0]))
np.savez(specification.with_name("steps.npz"), weights=np.stack(weights))
