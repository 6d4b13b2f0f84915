"""The score `logits`: how far a model's outputs are from the reference's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from compliance.scoring.payload import values
from compliance.scoring.value import Accuracy, Arrays, spread


def score(
    answers: Mapping[int, bytes], reference: Arrays, tolerance: Mapping[str, float], keys: Sequence[str], logits: np.ndarray | None
) -> Accuracy:
    """Its value is `logit_error`: the largest difference, in standard deviations of the reference's logits."""
    expected = np.concatenate([reference[k].reshape(len(reference[k]), -1) for k in keys], axis=1).astype(np.float64)
    found = np.empty_like(expected)
    for i in range(len(found)):  # row by row: a million small arrays would take more memory than all they hold
        found[i] = values(answers, i, np.float32, expected.shape[1])
    error = float(np.abs(found - expected).max() / spread(expected, "logits"))
    return Accuracy(
        "logit_error",
        error,
        tolerance["logit_error"],
        error <= tolerance["logit_error"],
        {"samples": len(expected), "same_class_fraction": float(np.mean(found.argmax(1) == expected.argmax(1)))},
    )
