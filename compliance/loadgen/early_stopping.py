"""Early stopping: how many queries LoadGen requires before it estimates a percentile
(loadgen/early_stopping.cc, results.cc). All functions are pure.
"""

from __future__ import annotations

from bisect import bisect_left

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
    possible = range(1, queries)
    count = bisect_left(possible, True, key=lambda t: not enough(queries, t, percentile, rules))
    return count - 1 if count else None


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
    most = 1
    while most < MOST_QUERIES << 10 and not enough(queries + most, over, percentile, rules):
        most = 2 * most
    possible = range(most)
    return bisect_left(
        possible, True, key=lambda more: enough(queries + more, over, percentile, rules)
    )
