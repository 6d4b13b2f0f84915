"""Shared code of the native JAX files: it puts the weights on the device, and takes the evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from sut import backend_evidence, jax_programs, weights_files
from sut.contract import Evidence, Unsupported, Workload
from sut.devices import DEVICES

Weights = Mapping[str, jax.Array]
"""Arrays by the names of the checkpoint's tensors."""


def configure(workload: Workload) -> None:
    """Before anything is compiled. Raises Unsupported where this machine or these files cannot do what is asked."""
    if workload.execution not in jax_programs.EXECUTIONS:
        raise Unsupported(f"execution {workload.execution} is not written for native JAX; there is {' and '.join(jax_programs.EXECUTIONS)}")
    if reason := DEVICES[workload.device].lacks.get(workload.precision):
        raise Unsupported(f"--precision {workload.precision}: {reason}")
    jax_programs.configure(workload.device, workload.precision)


def load_weights(workload: Workload) -> dict[str, jax.Array]:
    """The checkpoint's weights on the device, in the workload's precision.

    Those of dense layers become [in, out], so that a layer is `x @ weight`; embeddings stay [entries, size]. Raises as `configure` does.
    """
    configure(workload)
    dtype = "bfloat16" if workload.precision == "bfloat16" else "float32"
    weights = {}
    for name in weights_files.names(workload.checkpoint):
        today = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")  # BERT's from before 2019
        if today.endswith((".weight", ".bias")):  # older folders hold tables of positions, too
            values = weights_files.tensor(workload.checkpoint, name)
            weights[today] = jax.device_put(np.asarray(values if "embed" in name else values.T, jnp.dtype(dtype)))
    jax_programs.product(dtype)  # compiled here, so that evidence compiles nothing
    return weights


def in_flight(workload: Workload) -> int:
    """Batches that Offline keeps submitted: a GPU computes one while the host hands over the next; a CPU would share itself between two."""
    return 2 if workload.device == "cuda" else 1


def evidence(weights: Weights, workload: Workload, name: str, call: Callable[[], object]) -> Evidence:
    """See `backend_evidence.evidence`."""
    dtypes = {values.dtype.name for values in weights.values()}
    return backend_evidence.evidence(
        jax_programs, workload, name, lambda: jax_programs.watch(call), held=dtypes, computed=dtypes, detail={}
    )
