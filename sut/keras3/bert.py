"""BERT-like classifiers of KerasHub."""

from __future__ import annotations

from typing import Any

import keras
import keras_hub

from sut.checkpoint import weights_files
from sut.contract import Unsupported, Workload
from sut.keras import bert as keras_bert
from sut.keras.model import KerasPredictor
from sut.keras.training import KerasTraining
from sut.keras3 import converted, exact, runtime, training


def load(workload: Workload) -> KerasPredictor:
    """The checkpoint's classifier, with its head and the exact activation."""
    kind = runtime.kind_of(workload)
    config = workload.config["model"]
    if kind is keras_hub.models.TextClassifier:
        model = converted.load_encoder(workload, num_classes=len(config["id2label"]))
    else:
        model = runtime.load_model(workload, num_classes=config["num_labels"])
        complete(model, workload)
    return KerasPredictor(
        model, workload, runtime, prepare=keras_bert.prepare, to_host=keras_bert.to_host
    )


def complete(model: Any, workload: Workload) -> None:
    """Set the weights of the head, the epsilon and the exact activation, which KerasHub's converter
    leaves out, because it converts only the backbone.
    """
    names = ["classifier.weight", "classifier.bias"]
    if not set(names) <= set(weights_files.names(workload.checkpoint)):
        raise Unsupported(f"the folder lacks {' or '.join(names)}: train the head first")
    weight, bias = (weights_files.tensor(workload.checkpoint, name) for name in names)
    model.output_dense.set_weights([weight.T, bias])
    exact.epsilon(model, workload.config["model"]["layer_norm_eps"])
    if workload.config["model"]["hidden_act"] == "gelu":
        exact.gelu(model)


def load_training(workload: Workload) -> KerasTraining:
    """The checkpoint's classifier, compiled to train every parameter; see `training`.

    The classifier has its head and the exact activation, and no dropout.
    """
    runtime.configure(workload)
    kind = runtime.kind_of(workload)
    dtype = "bfloat16" if workload.precision == "bfloat16" else "float32"
    with exact.tensors():
        backbone = kind.backbone_cls.from_preset(str(workload.checkpoint), dtype=dtype, dropout=0.0)
    model = kind(backbone, num_classes=workload.config["model"]["num_labels"], dropout=0.0)
    complete(model, workload)
    runtime.backend.product(dtype)  # compiled here, so that evidence compiles nothing
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return training.compiled(model, workload, keras_bert.prepare, loss, metrics=None)
