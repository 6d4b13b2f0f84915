"""Trains every parameter of BERT in plain JAX; see `training`."""

from __future__ import annotations

from sut.contract import Workload
from sut.native_jax import bert, runtime
from sut.native_jax.training import JaxTraining, cross_entropy


def load(workload: Workload) -> JaxTraining:
    """The checkpoint's classifier, to be trained."""
    config = workload.config["model"]
    return JaxTraining(
        lambda trained, _, batch: cross_entropy(bert.logits(config, trained, batch["input_ids"], batch["attention_mask"]), batch["label"]),
        runtime.load_weights(workload),
        workload,
    )
