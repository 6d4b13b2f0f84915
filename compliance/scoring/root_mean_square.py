"""The root mean square of the errors of logits, for models that have a limit on it.

Rounding to bfloat16 causes single large errors. So a limit on the largest error does not exclude a
mistake that changes all logits a little, such as another epsilon or weights that were int8. The
root mean square shows such a mistake.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

NAME = "logit_rms"


def judge(errors: np.ndarray, tolerance: Mapping[str, float]) -> tuple[dict[str, float], bool]:
    """(the root mean square and its limit, whether it passes). Without a limit: ({}, True).

    Args:
        errors: differences of logits, in standard deviations of the reference's; any shape.
        tolerance: limits by name.
    """
    if NAME not in tolerance:
        return {}, True
    value = float(np.sqrt(np.mean(errors**2)))
    limit = tolerance[NAME]
    return {NAME: value, f"{NAME}_limit": limit}, value <= limit
