"""Models that answer questions by a span. Their answers are logits [batch, length, 2] of its start
and its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sut.contract import Batch, Workload
from sut.hf_tensorflow.library import Predictor, load_model, to_float32


def load(workload: Workload) -> Predictor:
    """Return the checkpoint's model."""
    return Predictor(load_model(workload), workload, _answer)


def _answer(outputs: Any) -> Batch:
    start, end = (to_float32(outputs[name]) for name in ("start_logits", "end_logits"))
    return {"logits": np.stack([start, end], -1)}
