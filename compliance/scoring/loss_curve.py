"""The score `loss_curve`: the loss after every step of a training, compared with the
reference's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compliance.scoring.value import Accuracy, Numbers, spread


def score(losses: Sequence[float], reference: np.ndarray, tolerance: Numbers) -> Accuracy:
    """Compute the score, whose value is `loss_error`: the largest difference of all steps, in
    standard deviations of the reference's losses.

    `first_loss_error` is the difference of the first step, whose loss is computed before anything
    is trained.

    Raises ValueError with one sentence if the two cannot be compared.
    """
    if reference.ndim != 1 or reference.dtype.kind != "f" or not reference.size:
        raise ValueError("the reference's losses are not a row of numbers: compute it again")
    if len(losses) != len(reference):
        raise ValueError(
            f"{len(losses)} losses were kept, and the reference has {len(reference)}: the training"
            " is not the reference's"
        )
    if missing := [name for name in ("loss_error", "first_loss_error") if name not in tolerance]:
        raise ValueError(f"the tolerance has no limit for {', '.join(missing)}")
    with np.errstate(all="ignore"):  # a value that is not finite gives NaN, which never passes
        errors = np.abs(np.asarray(losses, np.float64) - reference) / spread(reference, "losses")
    first = float(errors[0])
    worst = float(errors.max())
    limit = tolerance["loss_error"]
    first_limit = tolerance["first_loss_error"]
    detail = {
        "steps": float(len(errors)),
        "first_loss_error": first,
        "first_loss_error_limit": first_limit,
    }
    return Accuracy("loss_error", worst, limit, worst <= limit and first <= first_limit, detail)
