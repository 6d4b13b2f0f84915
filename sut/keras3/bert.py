"""BERT-like classifiers of KerasHub."""

from __future__ import annotations

from typing import Any

from sut.checkpoint import weights_files
from sut.contract import Workload
from sut.keras import bert as keras_bert
from sut.keras.predictor import KerasPredictor
from sut.keras3 import exact, runtime


def load(workload: Workload) -> KerasPredictor:
    """The checkpoint's classifier, with its head and the exact activation."""
    model = runtime.load_model(workload, num_classes=workload.config["model"]["num_labels"])
    complete(model, workload)
    return KerasPredictor(model, workload, runtime, prepare=keras_bert.prepare, to_host=keras_bert.to_host)


def complete(model: Any, workload: Workload) -> None:
    """Set what KerasHub's converter leaves out: the weights of the head, for it stops at the backbone, and the exact activation."""
    model.output_dense.set_weights(
        [weights_files.tensor(workload.checkpoint, f"classifier.{name}").T for name in ("weight", "bias")]  # a bias is its own transpose
    )
    if workload.config["model"]["hidden_act"] == "gelu":
        exact.gelu(model)
