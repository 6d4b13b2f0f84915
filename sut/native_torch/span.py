"""Models of Transformers that answer questions by a span. Their answers are logits [batch, length,
2] of its start and its end.
"""

from __future__ import annotations

from typing import Any

import torch

from sut.contract import Workload
from sut.native_torch import execution


def _start_and_end(outputs: Any) -> dict[str, torch.Tensor]:
    logits = torch.stack([outputs.start_logits, outputs.end_logits], -1)
    return {"logits": logits.float()}


def load(workload: Workload) -> execution.Predictor:
    """The checkpoint's model, in the workload's precision and execution."""
    return execution.Predictor(execution.load_model(workload), workload, _start_and_end)
