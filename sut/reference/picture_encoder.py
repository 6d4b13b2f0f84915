"""The reference for models of pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sut.contract import Batch, Workload
from sut.reference import library


def _answers(model: Any, inputs: dict[str, torch.Tensor]) -> Batch:
    """Return the logits [batch, classes], or every seventh channel of the last hidden states
    [batch, tokens, channels] or [batch, channels, rows, columns], float32.
    """
    outputs = model(**inputs)
    if "logits" in outputs:
        return {"logits": outputs.logits.cpu().numpy()}
    hidden = outputs.last_hidden_state.cpu().numpy()
    some = hidden[:, ::7] if hidden.ndim == 4 else hidden[:, :, ::7]
    return {"hidden": np.ascontiguousarray(some)}


def load(workload: Workload) -> library.Predictor:
    """The checkpoint's model."""
    return library.Predictor(workload, _answers)
