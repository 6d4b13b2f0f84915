"""The reference of BERT-like classifiers."""

from __future__ import annotations

from typing import Any

import torch

from sut.contract import Batch, Workload
from sut.reference import library


def _answers(model: Any, inputs: dict[str, torch.Tensor]) -> Batch:
    """Logits [batch, classes], float32."""
    return {"logits": model(**inputs).logits.cpu().numpy()}


def load(workload: Workload) -> library.Predictor:
    """The checkpoint's classifier."""
    return library.Predictor(workload, _answers)
