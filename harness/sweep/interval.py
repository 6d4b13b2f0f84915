"""How sure a mean of few figures is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

_CONFIDENCE = 0.95


def half_width(figures: Sequence[float]) -> float:
    """Half the width of the 95 % interval of the figures' mean, as a share of that mean. Infinite for fewer than two figures.

    By Student's t distribution: the figures are few, and their spread is taken from them alone.
    """
    from scipy.special import stdtrit

    if len(figures) < 2:
        return math.inf
    quantile = float(stdtrit(len(figures) - 1, (1 + _CONFIDENCE) / 2))
    return quantile * statistics.stdev(figures) / math.sqrt(len(figures)) / statistics.fmean(figures)
