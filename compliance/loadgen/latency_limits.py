"""Counts the queries that exceed a latency limit, and compares the percentiles with the limit.

Source: loadgen/results.cc (PerformanceSummary: PerfConstraintsMet, EarlyStopping, LogDetail).
"""

from __future__ import annotations

from compliance.loadgen.latency_keys import SAMPLES, LatencyKeys, limited
from compliance.logs import Detail


def over(detail: Detail, latency: LatencyKeys) -> tuple[int, int] | None:
    """The lower and the upper bound of the number of queries over the limit; None if a figure is
    missing.

    LoadGen counts these queries for plain latencies. For tokens the percentiles bound their number.
    """
    queries, limit = detail.number("result_query_count"), detail.number(latency.limit)
    if queries is None or limit is None or not 0 < queries < 1 << 40:
        return None
    counted = detail.get("result_overlatency_query_count")
    if latency is SAMPLES and type(counted) is int and 0 <= counted <= queries:
        return counted, counted
    return over_by_percentiles(detail, latency, int(queries), limit)


def over_by_percentiles(
    detail: Detail, latency: LatencyKeys, queries: int, limit: float
) -> tuple[int, int]:
    """The lower and the upper bound of the number of queries over `limit`, from minimum,
    percentiles and maximum.
    """
    at_least, at_most = 0, queries
    for _, share, value in latency.percentiles(detail):
        position = min(int(queries * share), queries - 1)
        if value > limit:
            at_least = max(at_least, queries - position)
        else:
            at_most = min(at_most, queries - position - 1)
    return at_least, at_most


def constraints_met(detail: Detail, percentile: float) -> bool | None:
    """Return whether the percentile of each latency that has a limit is within that limit. None if
    the log does not show it.

    Args:
        percentile: in percent.
    """
    parts = [_within(detail, latency, percentile) for latency in limited(detail)]
    if False in parts:
        return False
    return None if None in parts else True


def _within(detail: Detail, latency: LatencyKeys, percentile: float) -> bool | None:
    """Whether the percentile of a latency is within its limit; None if the log does not show it. If
    LoadGen does not log the percentile, the number of queries over the limit may show it.
    """
    value = detail.number(latency.percentile.format(f"{percentile:.2f}"))
    limit = detail.number(latency.limit)
    counted, queries = over(detail, latency), detail.number("result_query_count") or 0
    if limit is not None and value is not None:
        return value <= limit
    if counted is None:
        return None
    share = percentile * 0.01  # as LoadGen computes it
    allowed = queries - int(queries * share) - 1
    if counted[1] <= allowed:
        return True
    return False if counted[0] > allowed else None
