"""LoadGen's rates, computed again from other figures of the detail log. All functions are pure, and
return None if a figure is missing.

Source: loadgen/results.cc, LogDetail.
"""

from __future__ import annotations

from compliance.loadgen import counts
from compliance.logs import Detail

# Far more queries than any test has.
_MOST_QUERIES = 1 << 40


def offline(detail: Detail) -> float | None:
    """Offline's samples a second: all samples in the time until the last answer."""
    samples = counts.samples(detail, "Offline")
    longest_ns = detail.number("result_max_latency_ns")
    return samples * 1e9 / longest_ns if samples and longest_ns else None


def completed(detail: Detail) -> tuple[float, float] | None:
    """Server's completed queries a second, as the least and the largest possible rate.

    The last query is due after (queries - 1) / scheduled rate. The log does not have the latency of
    that query, which is between the smallest and the largest one.
    """
    queries = detail.number("result_query_count")
    scheduled = detail.number("result_scheduled_samples_per_sec")
    least_ns = detail.number("result_min_latency_ns")
    most_ns = detail.number("result_max_latency_ns")
    if queries is None or scheduled is None or least_ns is None or most_ns is None:
        return None
    if not 1 < queries < _MOST_QUERIES or scheduled <= 0 or least_ns < 0 or most_ns < 0:
        return None
    due_s = (queries - 1) / scheduled
    return (queries - 1) / (due_s + most_ns / 1e9), (queries - 1) / (due_s + least_ns / 1e9)


def tokens(detail: Detail) -> float | None:
    """Server's completed tokens a second. The number of tokens follows from
    result_token_throughput, which is tokens a nanosecond of latency, and the time from the rate of
    completed queries.
    """
    queries = detail.number("result_query_count")
    mean_ns = detail.number("result_mean_latency_ns")
    throughput = detail.number("result_token_throughput")
    rate = detail.number("result_completed_samples_per_sec")
    if queries is None or mean_ns is None or throughput is None or rate is None:
        return None
    if not 1 < queries < _MOST_QUERIES:
        return None
    return throughput * mean_ns * queries * rate / (queries - 1)


def without_overhead(detail: Detail) -> float | None:
    """SingleStream's queries a second, if each one began when the one before it ended."""
    mean_ns = detail.number("result_mean_latency_ns")
    return 1e9 / mean_ns if mean_ns else None
