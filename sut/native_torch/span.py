"""Models of Transformers that answer questions by a span. Their answers are logits [batch, length,
2] of its start and its end.
"""

from __future__ import annotations

from typing import Any

import torch

from sut.contract import Workload
from sut.native_torch import execution
from sut.native_torch.bert import TorchClassifier


def _start_and_end(outputs: Any) -> torch.Tensor:
    return torch.stack([outputs.start_logits, outputs.end_logits], -1)


def load(workload: Workload) -> TorchClassifier:
    """The checkpoint's model, in the workload's precision and execution."""
    return TorchClassifier(execution.load_model(workload), workload, _start_and_end)
