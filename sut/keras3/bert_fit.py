"""Trains every parameter of BERT-like classifiers of KerasHub; see `training`."""

from __future__ import annotations

import keras
import keras_hub

from sut.contract import Workload
from sut.keras import bert as keras_bert
from sut.keras.training import KerasTraining
from sut.keras3 import bert, exact, runtime, training


def load(workload: Workload) -> KerasTraining:
    """The checkpoint's classifier, with its head and the exact activation, without dropout, compiled for training."""
    runtime.configure(workload)
    kind = getattr(keras_hub.models, workload.config["classes"]["keras_hub"])
    dtype = "bfloat16" if workload.precision == "bfloat16" else "float32"
    with exact.tensors():
        backbone = kind.backbone_cls.from_preset(str(workload.checkpoint), dtype=dtype, dropout=0.0)
    model = kind(backbone, num_classes=workload.config["model"]["num_labels"], dropout=0.0)
    bert.complete(model, workload)
    runtime.backend.product(dtype)  # compiled here, so that evidence compiles nothing
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return training.compiled(model, workload, keras_bert.prepare, loss, metrics=None)
