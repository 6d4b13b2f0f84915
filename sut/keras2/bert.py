"""BERT-like classifiers of KerasNLP on Keras 2."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras_nlp
import numpy as np
import tf_keras
from safetensors import SafetensorError

from sut.checkpoint import bert_keras_nlp, keras_weights, weights_files
from sut.contract import OnStep, Workload
from sut.keras import bert as keras_bert
from sut.keras import training
from sut.keras.model import KerasPredictor
from sut.keras.training import KerasTraining
from sut.keras2 import runtime


def load(workload: Workload) -> KerasPredictor:
    """The checkpoint's classifier."""
    return KerasPredictor(
        build(workload),
        workload,
        runtime,
        prepare=keras_bert.prepare,
        to_host=keras_bert.to_host,
        keras_nlp=keras_nlp.__version__,
    )


def build(workload: Workload) -> Any:
    """Return the checkpoint's classifier, without dropout, which only affects training."""
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
    kind = getattr(keras_nlp.models, workload.config["classes"]["keras_nlp"])
    model = kind(backbone, num_classes=config["num_labels"], dropout=0.0)
    for path, name in bert_keras_nlp.variables(config["num_hidden_layers"]):
        variable = keras_weights.at(model, path)
        value = _tensor(workload.checkpoint, name)
        if "embeddings" not in path.rpartition(".")[2]:
            # Keras' matrices are [in, out], and those of attention have a separate axis of heads.
            value = value.T
        variable.assign(value.reshape(variable.shape))
    if config["hidden_act"] == "gelu":  # KerasNLP builds the tanh form only
        for layer in backbone.transformer_layers:
            layer._feedforward_intermediate_dense.activation = tf_keras.activations.gelu
    return model


def _tensor(folder: Path, name: str) -> np.ndarray:
    """Return a tensor. In BERT's early folders, a norm's factors are called gamma and beta."""
    try:
        return weights_files.tensor(folder, name)
    except (KeyError, SafetensorError):
        older = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        older = older.replace("LayerNorm.bias", "LayerNorm.beta")
        return weights_files.tensor(folder, older)


def load_training(workload: Workload) -> KerasTraining:
    """The checkpoint's classifier, compiled with AdamW to train every parameter by `compile` and
    `fit`; see `training`.
    """
    model = build(workload)
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    training.check_precision(workload)
    # Otherwise XLA would compile the optimizer on every machine with a GPU.
    xla = workload.execution == "xla"
    optimizer = tf_keras.optimizers.AdamW(**workload.config["optimizer"], jit_compile=xla)
    model.compile(optimizer=optimizer, loss=loss, metrics=None, jit_compile=xla)
    versions = {"keras_nlp": keras_nlp.__version__}
    return KerasTraining(model, workload, keras_bert.prepare, _epoch, runtime, versions)


class _Steps(training.Steps, tf_keras.callbacks.Callback):
    """See `training.Steps`."""

    def __init__(self, on_step: OnStep):
        super().__init__(on_step)
        # Otherwise Keras converts the losses to numbers, and every step waits for them.
        self._supports_tf_logs = True


def _epoch(
    model: Any,
    pairs: Iterable[training.Pair],
    steps: int,
    on_step: OnStep,
) -> None:
    """Run one epoch over a pipeline of the pairs. KerasNLP's own `fit` requires a preprocessor, and
    there is none here.
    """
    data = runtime.backend.pipeline(pairs)
    tf_keras.Model.fit(
        model, data, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[_Steps(on_step)]
    )
