"""BERT-like classifiers."""

from __future__ import annotations

from sut.contract import Workload
from sut.hf_tensorflow.library import Predictor, load_model, to_float32


def load(workload: Workload) -> Predictor:
    """Return the checkpoint's classifier. Its answers are `logits`, float32 [batch, classes]."""
    return Predictor(
        load_model(workload), workload, lambda outputs: {"logits": to_float32(outputs["logits"])}
    )
