"""The reference for models that answer questions by a span. Its answers are logits [batch, length,
2] of the span's start and its end.
"""

from __future__ import annotations

from typing import Any

import torch

from sut.contract import Batch, Workload
from sut.reference import library


def _answers(model: Any, inputs: dict[str, torch.Tensor]) -> Batch:
    outputs = model(**inputs)
    logits = torch.stack([outputs.start_logits, outputs.end_logits], -1)
    return {"logits": logits.cpu().numpy()}


def load(workload: Workload) -> library.Predictor:
    """The checkpoint's model."""
    return library.Predictor(workload, _answers)
