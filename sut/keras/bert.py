"""BERT-like classifiers of KerasHub and KerasNLP. Both libraries take the same inputs, and answer
logits.
"""

from __future__ import annotations

import numpy as np

from sut.contract import Batch


def prepare(inputs: Batch) -> Batch:
    """Return the inputs under Keras' names. All tokens are of the first segment."""
    return {
        "token_ids": inputs["input_ids"],
        "segment_ids": np.zeros_like(inputs["input_ids"]),
        "padding_mask": inputs["attention_mask"],
    }


def to_host(outputs: np.ndarray) -> Batch:
    """Return the logits [batch, …] as float32."""
    return {"logits": np.ascontiguousarray(outputs, np.float32)}
