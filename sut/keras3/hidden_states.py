"""Backbones of KerasHub, which are models without a head."""

from __future__ import annotations

import numpy as np

from sut.contract import Batch, Workload
from sut.keras3 import runtime
from sut.keras_predictor import KerasPredictor


def prepare(inputs: Batch) -> Batch:
    """The inputs under KerasHub's names; nothing is padding."""
    return {"token_ids": inputs["input_ids"], "padding_mask": np.ones_like(inputs["input_ids"])}


def to_host(outputs: np.ndarray) -> Batch:
    """Every seventh channel of the last hidden states [batch, length, channels], as float32."""
    return {"hidden": np.ascontiguousarray(outputs[..., ::7], np.float32)}


def load(workload: Workload) -> KerasPredictor:
    """The checkpoint's backbone."""
    return KerasPredictor(runtime.load_model(workload), workload, runtime, prepare=prepare, to_host=to_host)
