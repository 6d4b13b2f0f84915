"""Backbones of KerasHub. The measured call is `predict_on_batch`, as of the classifiers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sut.contract import Batch, Evidence, Workload
from sut.keras3 import exact, runtime


class KerasHiddenStates:
    """A KerasHub backbone. Its methods are those of `sut.contract.Inference`."""

    in_flight, streams_tokens = 1, False  # predict_on_batch copies to the host

    def __init__(self, model: Any, workload: Workload):
        self.model, self.workload = model, workload

    def prepare(self, inputs: Batch) -> Batch:
        """The inputs under KerasHub's names. Where they have no mask, nothing is padding."""
        ids = inputs["input_ids"]
        return {"token_ids": ids, "padding_mask": inputs.get("attention_mask", np.ones_like(ids))}

    def predict(self, batch: Batch, on_first_token: Any = None) -> np.ndarray:
        """→ the last hidden states [batch, length, channels], already on the host."""
        return self.model.predict_on_batch(batch)

    def to_host(self, outputs: np.ndarray) -> Batch:
        """Every seventh channel, as float32."""
        return {"hidden": np.ascontiguousarray(outputs[..., ::7], np.float32)}

    def synchronise(self) -> None:
        """Wait for the device."""
        runtime.synchronise(self.model)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `runtime.evidence`."""
        return runtime.evidence(self.model, self.workload, "predict_on_batch", call)


def load(workload: Workload) -> KerasHiddenStates:
    """The checkpoint's backbone."""
    model, config = runtime.load_model(workload), workload.config["model"]
    if epsilon := config.get("layer_norm_eps", config.get("layer_norm_epsilon")):
        exact.epsilon(model, epsilon)
    exact.token_types(model, workload.checkpoint)
    model.compile(optimizer=None, loss=None, metrics=None, jit_compile=workload.execution == "xla")
    return KerasHiddenStates(model, workload)
