"""BERT-like classifiers."""

from __future__ import annotations

from typing import Any

from sut.contract import Batch, Workload
from sut.hf_tensorflow.library import Predictor, load_model, to_float32


def load(workload: Workload) -> Predictor:
    """Return the checkpoint's classifier. Its answers are `logits`, float32 [batch, classes]."""
    return Predictor(load_model(workload), workload, _answer)


def _answer(outputs: Any) -> Batch:
    return {"logits": to_float32(outputs["logits"])}
