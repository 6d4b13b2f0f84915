"""Backbones of KerasHub, which are models without a head."""

from __future__ import annotations

from typing import Any

import numpy as np

from sut.contract import Batch, Unsupported, Workload
from sut.keras.predictor import KerasPredictor
from sut.keras3 import converted, exact, runtime, xlnet


def prepare(inputs: Batch) -> Batch:
    """Return the inputs under KerasHub's names. If they have no mask, nothing is padding."""
    ids = inputs["input_ids"]
    return {"token_ids": ids, "padding_mask": inputs.get("attention_mask", np.ones_like(ids))}


def to_host(outputs: np.ndarray) -> Batch:
    """Return every seventh channel of the last hidden states [batch, length, channels], float32."""
    return {"hidden": np.ascontiguousarray(outputs[..., ::7], np.float32)}


def _check(backbone: Any) -> None:
    """Raises Unsupported for a converted backbone with other inputs, or with several outputs."""
    inputs = backbone.input
    fits = isinstance(inputs, dict) and set(inputs) == {"token_ids", "padding_mask"}
    if not fits or isinstance(backbone.output, dict | list | tuple):
        raise Unsupported(
            f"KerasHub's {type(backbone).__name__} has other inputs than token_ids and padding_mask,"
            " or several outputs: take native-torch"
        )


def load(workload: Workload) -> KerasPredictor:
    """The checkpoint's backbone."""
    config = workload.config["model"]
    names = prepare
    if config["model_type"] == "xlnet":
        model = xlnet.load_model(workload)
        names = xlnet.prepare
    elif workload.config["classes"]["keras_hub"] == "Backbone":
        model = converted.load_model(workload)
        _check(model)
    else:
        model = runtime.load_model(workload)
    epsilon = config.get("layer_norm_eps", config.get("layer_norm_epsilon"))
    if epsilon:
        exact.epsilon(model, epsilon)
    exact.token_types(model, workload.checkpoint)
    return KerasPredictor(model, workload, runtime, prepare=names, to_host=to_host)
