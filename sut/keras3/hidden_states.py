"""Backbones of KerasHub, which are models without a head."""

from __future__ import annotations

from typing import Any

import numpy as np

from sut.contract import Batch, Workload
from sut.keras.model import KerasPredictor
from sut.keras3 import converted, exact, runtime


def prepare(inputs: Batch) -> Batch:
    """Return the inputs under KerasHub's names. If they have no mask, nothing is padding."""
    ids = inputs["input_ids"]
    return {"token_ids": ids, "padding_mask": inputs.get("attention_mask", np.ones_like(ids))}


def with_segments(inputs: Batch) -> Batch:
    """Return the inputs under KerasHub's names. Without types, all tokens are of the first
    segment.
    """
    ids = inputs["input_ids"]
    segments = inputs.get("token_type_ids", np.zeros_like(ids))
    return {**prepare(inputs), "segment_ids": segments}


def to_host(outputs: Any) -> Batch:
    """Return every seventh channel of the last hidden states [batch, length, channels], or [batch,
    rows, columns, channels] with the channels moved to the second axis, float32. A backbone with a
    pooler answers a dict.
    """
    hidden = outputs["sequence_output"] if isinstance(outputs, dict) else outputs
    some = hidden[..., ::7]
    if some.ndim == 4:
        some = np.moveaxis(some, -1, 1)
    return {"hidden": np.ascontiguousarray(some, np.float32)}


def load(workload: Workload) -> KerasPredictor:
    """The checkpoint's backbone."""
    config = workload.config["model"]
    if workload.config["classes"]["keras_hub"] == "Backbone":
        model = converted.load_encoder(workload)
        names = with_segments if "segment_ids" in model.input else prepare
        return KerasPredictor(model, workload, runtime, prepare=names, to_host=to_host)
    model = runtime.load_model(workload)
    epsilon = config.get("layer_norm_eps", config.get("layer_norm_epsilon"))
    if epsilon:
        exact.epsilon(model, epsilon)
    exact.token_types(model, workload.checkpoint)
    return KerasPredictor(model, workload, runtime, prepare=prepare, to_host=to_host)
