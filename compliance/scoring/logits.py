"""The score `logits`: how far a model's outputs are from the reference's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compliance.scoring.payload import matrix
from compliance.scoring.value import (
    Accuracy,
    AnswerBytes,
    Arrays,
    Numbers,
    root_mean_square,
    spread,
    units,
)


def score(
    answers: AnswerBytes,
    reference: Arrays,
    tolerance: Numbers,
    keys: Sequence[str],
    logits: np.ndarray | None,
) -> Accuracy:
    """Compute the score, whose value is `logit_error`: the largest difference, in the unit of its
    place (`value.units`): the standard deviation of the reference's logits, or less at places that
    differ less between the samples.

    A tolerance with `logit_rms` also limits the root mean square of the differences.
    """
    expected = np.concatenate(
        [reference[k].reshape(len(reference[k]), -1) for k in keys], axis=1
    ).astype(np.float64)
    found = matrix(answers, len(expected), np.float32, expected.shape[1])
    limit = tolerance["logit_error"]
    spread(expected, "logits")  # logits that are all equal judge nothing
    unit = units(expected, limit, "logits")
    errors = found - expected
    np.abs(errors, out=errors)
    errors /= unit
    error = float(errors.max())
    rms, rms_passes = root_mean_square(errors, tolerance)
    same_class = float(np.mean(found.argmax(1) == expected.argmax(1)))
    detail = {"samples": len(expected), "same_class_fraction": same_class, **rms}
    return Accuracy("logit_error", error, limit, error <= limit and rms_passes, detail)
