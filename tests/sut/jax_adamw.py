"""Runs in native JAX's environment: five steps of its AdamW, a step in bfloat16, and a product with
LoRA's factors.

`python -m tests.sut.jax_adamw SPEC.json`.

The specification has the constants and the file that holds `weight` and `gradients`. Beside it,
steps.npz gets the weight after each step, and of the bfloat16 step whether the old state is gone,
and the dtypes of the new one. `exact` is how many products of a bfloat16 layer with factors name
the highest precision.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

from sut.native_jax.causal_lm import adapted
from sut.native_jax.training import JaxTraining, adamw
from tests.support.files import read_json

specification = Path(sys.argv[1])
spec = read_json(specification)
with np.load(spec["arrays"]) as f:
    weight, gradients = jnp.asarray(f["weight"]), f["gradients"]
state, weights = (weight, jnp.zeros_like(weight), jnp.zeros_like(weight)), []
for number, gradient in enumerate(gradients):
    weight, *moments = state
    state = adamw(
        spec["constants"],
        jnp.float32(spec["rate"]),
        jnp.int32(number + 1),
        weight,
        jnp.asarray(gradient),
        *moments,
    )
    weights.append(np.asarray(state[0]))
workload = SimpleNamespace(
    config={"optimizer": {**spec["constants"], "learning_rate": spec["rate"]}}
)
training = JaxTraining(
    lambda trained, _, batch: (trained["x"] * batch["x"]).sum(),
    {"x": jnp.ones(7, jnp.bfloat16)},
    workload,
)
before = jax.tree.leaves(training.state)
training.fit([{"x": gradients[0]}], 1, lambda loss: None)
kept = [values.dtype.name for values in jax.tree.leaves(training.state)]
gone = [values.is_deleted() for values in before]
layer = {
    "q.weight": jnp.ones((8, 8), jnp.bfloat16),
    "q.a": jnp.ones((8, 2)),
    "q.b": jnp.ones((2, 8)),
}
program = (
    jax.jit(adapted, static_argnums=1).lower(layer, "q", jnp.ones((1, 8), jnp.bfloat16)).as_text()
)
exact = program.count("precision = [HIGHEST, HIGHEST]")
np.savez(
    specification.with_name("steps.npz"),
    weights=np.stack(weights),
    gone=gone,
    kept=kept,
    exact=exact,
)
