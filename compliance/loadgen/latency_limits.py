"""How many queries are over the limit of their latency, and whether the percentiles are within it.

Source: loadgen/results.cc (PerformanceSummary: PerfConstraintsMet, EarlyStopping, LogDetail).
"""

from __future__ import annotations

from compliance.loadgen.latency_keys import SAMPLES, LatencyKeys, limited
from compliance.logs import Detail


def over(detail: Detail, latency: LatencyKeys) -> tuple[int, int] | None:
    """How many queries are over the limit, at least and at most; LoadGen counts those of plain latencies. None: figures are missing."""
    queries, limit = detail.number("result_query_count"), detail.number(latency.limit)
    if queries is None or limit is None or not 0 < queries < 1 << 40:
        return None
    counted = detail.get("result_overlatency_query_count")
    if latency is SAMPLES and type(counted) is int and 0 <= counted <= queries:
        return counted, counted
    return over_by_percentiles(detail, latency, int(queries), limit)


def over_by_percentiles(detail: Detail, latency: LatencyKeys, queries: int, limit: float) -> tuple[int, int]:
    least, most = 0, queries
    for _, share, value in latency.percentiles(detail):
        place = min(int(queries * share), queries - 1)
        if value > limit:
            least = max(least, queries - place)
        else:
            most = min(most, queries - place - 1)
    return least, most


def constraints_met(detail: Detail, percentile: float) -> bool | None:
    """Whether the percentile (in percent) of each latency is within its limit. None: a figure is missing."""
    pairs = [(detail.number(latency.percentile.format(f"{percentile:.2f}")), detail.number(latency.limit)) for latency in limited(detail)]
    if any(value is None or limit is None for value, limit in pairs):
        return None
    return all(value <= limit for value, limit in pairs if value is not None and limit is not None)
