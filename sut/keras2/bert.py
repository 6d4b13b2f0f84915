"""BERT-like classifiers of KerasNLP on Keras 2. The measured call is Keras' `predict_on_batch`, as on Keras 3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras_nlp
import numpy as np
import tf_keras
from safetensors import SafetensorError

from sut import weights_files
from sut.contract import Batch, Evidence, Workload
from sut.keras2 import runtime
from sut.weight_maps import bert_keras_nlp


class Keras2Classifier:
    """A KerasNLP classifier. Its methods are those of `sut.contract.Inference`."""

    in_flight, streams_tokens = 1, False  # predict_on_batch copies to the host

    def __init__(self, model: Any, workload: Workload):
        self.model, self.workload = model, workload

    def prepare(self, inputs: Batch) -> Batch:
        """The inputs under KerasNLP's names."""
        return named(inputs)

    def predict(self, batch: Batch, on_first_token: Any = None) -> np.ndarray:
        """→ logits [batch, classes], already on the host."""
        return tf_keras.Model.predict_on_batch(self.model, batch)  # KerasNLP's own of 0.8.2 takes one array alone

    def to_host(self, outputs: np.ndarray) -> Batch:
        """The logits as float32."""
        return {"logits": np.ascontiguousarray(outputs, np.float32)}

    def synchronise(self) -> None:
        """Wait for the device."""
        runtime.synchronise(self.model)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `runtime.evidence`."""
        return runtime.evidence(self.model, self.workload, "predict_on_batch", call, keras_nlp=keras_nlp.__version__)


def named(inputs: Batch) -> Batch:
    """The inputs under KerasNLP's names; all tokens are of the first segment."""
    return {
        "token_ids": inputs["input_ids"],
        "segment_ids": np.zeros_like(inputs["input_ids"]),
        "padding_mask": inputs["attention_mask"],
    }


def load(workload: Workload) -> Keras2Classifier:
    """The checkpoint's classifier, compiled to predict."""
    model = build(workload)
    model.compile(optimizer="sgd", loss=None, metrics=None, jit_compile=workload.execution == "xla")  # Keras 2 wants one named; none trains
    return Keras2Classifier(model, workload)


def build(workload: Workload) -> Any:
    """The checkpoint's classifier, without dropout, which counts in training alone."""
    runtime.configure(workload)
    config = workload.config["model"]
    backbone = keras_nlp.models.BertBackbone(
        vocabulary_size=config["vocab_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        hidden_dim=config["hidden_size"],
        intermediate_dim=config["intermediate_size"],
        max_sequence_length=config["max_position_embeddings"],
        num_segments=config["type_vocab_size"],
        dropout=0.0,
    )
    model = getattr(keras_nlp.models, workload.config["classes"]["keras_nlp"])(backbone, num_classes=config["num_labels"], dropout=0.0)
    for path, name in bert_keras_nlp.variables(config["num_hidden_layers"]):
        variable, tensor = _at(model, path), _tensor(workload.checkpoint, name)
        # Keras' matrices are [in, out], and those of attention have their heads apart.
        variable.assign((tensor if "embeddings" in path.rpartition(".")[2] else tensor.T).reshape(variable.shape))
    if config["hidden_act"] == "gelu":  # KerasNLP builds the tanh form only
        for layer in backbone.transformer_layers:
            layer._feedforward_intermediate_dense.activation = tf_keras.activations.gelu
    return model


def _tensor(folder: Path, name: str) -> np.ndarray:
    """In folders of BERT's first years the factors of a norm are called gamma and beta."""
    try:
        return weights_files.tensor(folder, name)
    except (KeyError, SafetensorError):
        return weights_files.tensor(folder, name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"))


def _at(model: Any, path: str) -> Any:
    """What a path of attributes and indices leads to."""
    found = model
    for step in path.split("."):
        found = found[int(step)] if step.isdigit() else getattr(found, step)
    return found
