"""Early stopping: how many queries it needs, and which it leaves out (loadgen/early_stopping.cc, results.cc)."""

from __future__ import annotations

from scipy.special import betainc

from compliance.loadgen.latency_keys import limited
from compliance.loadgen.latency_limits import over
from compliance.logs import Detail
from compliance.rules import Rules

# More than anybody's, and few enough to reckon with.
MOST_QUERIES = 1 << 40


def discards(queries: int, percentile: float, rules: Rules) -> int | None:
    """How many of the slowest queries early stopping leaves out: the largest t - 1 with queries ≥ h(t) + t; None: too few queries.

    h(t) is the least h with P(Binomial(h + t, 1 - percentile) ≤ t) ≤ 1 - confidence (loadgen/early_stopping.cc), and that probability is
    the regularised incomplete beta function I_percentile(h, t + 1).
    """

    if not enough(queries, 1, percentile, rules):
        return None
    low, high = 1, queries
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if enough(queries, middle, percentile, rules) else (low, middle)
    return low - 1


def enough(queries: int, over: int, percentile: float, rules: Rules) -> bool:
    """Whether so many queries, `over` of them over their latency, show that the percentile is not: queries ≥ h(over) + over."""
    h = queries - over
    return h > 0 and bool(betainc(h, over + 1, percentile - rules.early_stopping.tolerance) <= 1 - rules.early_stopping.confidence)


def lacking(queries: int, over: int, percentile: float, rules: Rules) -> int:
    """How many more queries, none of them over, would be enough; 0: they are."""
    if enough(queries, over, percentile, rules):
        return 0
    low, high = 0, 1
    while high < MOST_QUERIES << 10 and not enough(queries + high, over, percentile, rules):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(queries + middle, over, percentile, rules) else (middle, high)
    return high


def met(detail: Detail, scenario: str, rules: Rules) -> bool | None:
    """Whether it is; None: the log's figures do not tell."""
    if scenario == "Offline":
        return True
    found, percentile = detail.number("result_query_count"), rules.scenarios[scenario].percentile / 100
    if found is None or not 0 < found <= MOST_QUERIES:
        return None
    if scenario != "Server":
        return discards(int(found), percentile, rules) is not None
    parts = [held(int(found), over(detail, latency), percentile, rules) for latency in limited(detail)]
    return False if False in parts else None if None in parts else True


def held(queries: int, over: tuple[int, int] | None, percentile: float, rules: Rules) -> bool | None:
    """Of (at least, at most) so many over their latency."""
    if over is None:
        return None
    if enough(queries, over[1], percentile, rules):
        return True
    return None if enough(queries, over[0], percentile, rules) else False


def estimates(scenario: str, rules: Rules) -> tuple[tuple[float, str], ...]:
    """(percentile, key) of what is estimated; of SingleStream also the 99th percentile, from which MultiStream may be inferred."""
    percentile = rules.scenarios[scenario].percentile
    return {
        "SingleStream": ((percentile, "early_stopping_latency_ss"), (99.0, "early_stopping_latency_ms")),
        "MultiStream": ((percentile, "early_stopping_latency_ms"),),
    }.get(scenario, ())
