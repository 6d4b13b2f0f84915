"""Early stopping: how many queries LoadGen requires before it estimates a percentile
(loadgen/early_stopping.cc, results.cc). All functions are pure.
"""

from __future__ import annotations

from compliance.rules import Rules

# More queries than any test has, and few enough to compute with.
MOST_QUERIES = 1 << 40


def discards(queries: int, percentile: float, rules: Rules) -> int | None:
    """Compute how many of the slowest queries early stopping leaves out. None if there are too few
    queries for an estimate.

    The number is the largest t - 1 with queries ≥ h(t) + t. Here h(t) is the least h with
    P(Binomial(h + t, 1 - p) ≤ t) ≤ 1 - confidence, and p is percentile - tolerance. That
    probability is the regularised incomplete beta function I_p(h, t + 1).

    Args:
        percentile: as a fraction.
    """
    if not enough(queries, 1, percentile, rules):
        return None
    low = 1
    high = queries
    while high - low > 1:
        middle = (low + high) // 2
        if enough(queries, middle, percentile, rules):
            low = middle
        else:
            high = middle
    return low - 1


def enough(queries: int, over: int, percentile: float, rules: Rules) -> bool:
    """Return whether the percentile is within its limit with the round's confidence, if `over` of
    `queries` exceed the limit.

    This is so if `queries` ≥ h(over) + over, see `discards`.
    """
    from scipy.special import betainc  # it takes a third of a second to import

    h = queries - over
    if h <= 0:
        return False
    probability = betainc(h, over + 1, percentile - rules.early_stopping.tolerance)
    return bool(probability <= 1 - rules.early_stopping.confidence)


def lacking(queries: int, over: int, percentile: float, rules: Rules) -> int:
    """Compute how many more queries within the limit are needed until `enough` is true. 0 if
    `enough` is true already.
    """
    if enough(queries, over, percentile, rules):
        return 0
    low = 0
    high = 1
    while high < MOST_QUERIES << 10 and not enough(queries + high, over, percentile, rules):
        low = high
        high = 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if enough(queries + middle, over, percentile, rules):
            high = middle
        else:
            low = middle
    return high
