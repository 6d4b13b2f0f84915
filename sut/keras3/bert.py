"""BERT-like classifiers of KerasHub. The measured call is `predict_on_batch`: `predict` builds a data pipeline at each call (8 ms)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sut import weights_files
from sut.contract import Batch, Evidence, Workload
from sut.keras3 import exact, runtime


class KerasClassifier:
    """A KerasHub classifier. Its methods are those of `sut.contract.Inference`."""

    in_flight, streams_tokens = 1, False  # predict_on_batch copies to the host

    def __init__(self, model: Any, workload: Workload):
        self.model, self.workload = model, workload

    def prepare(self, inputs: Batch) -> Batch:
        """The inputs under KerasHub's names."""
        return named(inputs)

    def predict(self, batch: Batch, on_first_token: Any = None) -> np.ndarray:
        """→ logits [batch, classes], already on the host."""
        return self.model.predict_on_batch(batch)

    def to_host(self, outputs: np.ndarray) -> Batch:
        """The logits as float32."""
        return {"logits": np.ascontiguousarray(outputs, np.float32)}

    def synchronise(self) -> None:
        """Wait for the device."""
        runtime.synchronise(self.model)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `runtime.evidence`."""
        return runtime.evidence(self.model, self.workload, "predict_on_batch", call)


def named(inputs: Batch) -> Batch:
    """The inputs under KerasHub's names; all tokens are of the first segment."""
    return {
        "token_ids": inputs["input_ids"],
        "segment_ids": np.zeros_like(inputs["input_ids"]),
        "padding_mask": inputs["attention_mask"],
    }


def load(workload: Workload) -> KerasClassifier:
    """The checkpoint's classifier, with its head and the exact activation."""
    model = runtime.load_model(workload, num_classes=workload.config["model"]["num_labels"])
    complete(model, workload)
    model.compile(optimizer=None, loss=None, metrics=None, jit_compile=workload.execution == "xla")
    return KerasClassifier(model, workload)


def complete(model: Any, workload: Workload) -> None:
    """What KerasHub's converter leaves out: the head's weights, for it stops at the backbone, and the activation."""
    model.output_dense.set_weights(
        [weights_files.tensor(workload.checkpoint, f"classifier.{name}").T for name in ("weight", "bias")]  # a bias is its own transpose
    )
    if workload.config["model"]["hidden_act"] == "gelu":
        exact.gelu(model)
