"""Models without a head."""

from __future__ import annotations

from typing import Any

import numpy as np

from sut.contract import Batch, Workload
from sut.hf_tensorflow.library import Predictor, load_model, to_float32


def load(workload: Workload) -> Predictor:
    """Return the checkpoint's model. Its answers are every seventh channel of the last hidden
    states [batch, length, channels], float32.

    The channels are taken on the host, so that the graph computes all of them.
    """
    return Predictor(load_model(workload), workload, _answer)


def _answer(outputs: Any) -> Batch:
    hidden = to_float32(outputs["last_hidden_state"])
    return {"hidden": np.ascontiguousarray(hidden[..., ::7])}
