"""Shared code of the native JAX files. It loads weights to the device, and takes the evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from sut.checkpoint import weights_files
from sut.contract import AsGiven, Call, Evidence, Workload
from sut.evidence import backend_evidence, jax_programs, precision, supported

Weights = Mapping[str, jax.Array]
"""Arrays by the names of the checkpoint's tensors."""
DeviceBatch = Mapping[str, jax.Array]
"""A batch on the device."""
_ENDS = (".weight", ".bias")
"""Ends of the names of weights. Older folders also contain tables of positions."""


def configure(workload: Workload) -> None:
    """Set device and precision, before anything is compiled. Raises Unsupported if this machine or
    these files cannot run the workload.
    """
    supported.check(workload, "native JAX", jax_programs.EXECUTIONS)
    jax_programs.configure(workload.device, workload.precision)


def load_weights(workload: Workload) -> dict[str, jax.Array]:
    """Return the checkpoint's weights on the device, in the workload's precision.

    Weights of dense layers become [in, out], so that a layer is `x @ weight`. Embeddings stay
    unchanged. Raises as `configure` does.
    """
    configure(workload)
    dtype = jnp.dtype(workload.dtype)
    weights = {}
    for name in weights_files.names(workload.checkpoint):
        # BERT's folders from before 2019 have other names.
        today = name.replace("LayerNorm.gamma", "LayerNorm.weight")
        today = today.replace("LayerNorm.beta", "LayerNorm.bias")
        if today.endswith(_ENDS):
            values = weights_files.tensor(workload.checkpoint, name)
            if "embed" not in today:
                values = values.T
            weights[today] = jax.device_put(np.asarray(values, dtype))
    jax_programs.product(dtype.name)  # compiled here, so that evidence compiles nothing
    return weights


class JaxModel(AsGiven):
    """Weights and the compiled program that is measured."""

    def __init__(self, weights: Weights, workload: Workload, program: str):
        """`program`: its name."""
        self.weights = weights
        self.workload = workload
        self.in_flight = workload.in_flight
        self.name = program

    def synchronise(self) -> None:
        """Wait for the device."""
        jax_programs.synchronise()

    def evidence(self, call: Call) -> Evidence:
        """See `evidence`."""
        return evidence(self.weights, self.workload, self.name, call)


def evidence(
    weights: Weights, workload: Workload, name: str, call: Callable[[], object]
) -> Evidence:
    """See `backend_evidence.evidence`."""
    held = precision.count_elements((values.dtype.name, values.size) for values in weights.values())
    return backend_evidence.evidence(
        jax_programs,
        workload,
        name,
        lambda: jax_programs.watch(call),
        held=held,
        computed=set(held),
        detail={},
    )
