"""Early stopping: how many queries LoadGen requires before it estimates a percentile
(loadgen/early_stopping.cc, results.cc). All functions are pure.
"""

from __future__ import annotations

from scipy.special import betainc

from compliance.loadgen import counts
from compliance.loadgen.latency_keys import limited
from compliance.loadgen.latency_limits import over
from compliance.logs import Detail
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
    low, high = 1, queries
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
    low, high = 0, 1
    while high < MOST_QUERIES << 10 and not enough(queries + high, over, percentile, rules):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if enough(queries + middle, over, percentile, rules):
            high = middle
        else:
            low = middle
    return high


def met(detail: Detail, scenario: str, rules: Rules) -> bool | None:
    """Return whether a performance test has enough queries for early stopping. None if the log's
    figures do not decide it.
    """
    if scenario == "Offline":
        return True
    queries = detail.number("result_query_count")
    percentile = counts.percentile(detail, rules.scenarios[scenario].percentile) / 100
    if queries is None or not 0 < queries <= MOST_QUERIES:
        return None
    if scenario != "Server":
        return discards(int(queries), percentile, rules) is not None
    parts = [
        limit_held(int(queries), over(detail, latency), percentile, rules)
        for latency in limited(detail)
    ]
    if False in parts:
        return False
    return None if None in parts else True


def limit_held(
    queries: int, over: tuple[int, int] | None, percentile: float, rules: Rules
) -> bool | None:
    """Return whether early stopping finds a latency within its limit. None if the log does not
    decide it.

    Args:
        over: the lower and the upper bound of the number of queries over the limit.
    """
    if over is None:
        return None
    if enough(queries, over[1], percentile, rules):
        return True
    return None if enough(queries, over[0], percentile, rules) else False


def estimates(detail: Detail, scenario: str, rules: Rules) -> tuple[tuple[float, str], ...]:
    """(percentile in percent, key of the detail log) of each of LoadGen's estimates in a scenario.

    SingleStream also has the 99th percentile, because MultiStream may be inferred from it.
    """
    percentile = counts.percentile(detail, rules.scenarios[scenario].percentile)
    if scenario == "SingleStream":
        return (percentile, "early_stopping_latency_ss"), (99.0, "early_stopping_latency_ms")
    if scenario == "MultiStream":
        return ((percentile, "early_stopping_latency_ms"),)
    return ()
