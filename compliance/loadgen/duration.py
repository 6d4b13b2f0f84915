"""Computes how long a performance test took, from the figures of its detail log. All functions are
pure.

Source: loadgen/results.cc, MinDurationMet.
"""

from __future__ import annotations

from compliance.loadgen.latency_keys import QUERIES, SAMPLES
from compliance.logs import Detail
from compliance.logs.dates import wall_seconds
from compliance.logs.digits import DIGITS

# The uncertainty of the difference of two dates that are logged in whole milliseconds.
_CALENDAR_NS = 2e6


def last_issue_ns(detail: Detail, scenario: str) -> tuple[float, float] | None:
    """The lower and the upper bound of the duration that LoadGen compares with min_duration, in
    nanoseconds from the test's start.

    Offline: the largest latency. SingleStream and Server: the time until the last query was issued
    or due, which follows from the rate and its six digits. MultiStream logs no rate. Its last query
    is answered when the test ends, and the calendar gives that time to the millisecond.

    None if a figure is missing.
    """
    count, wall_s = detail.number("result_query_count"), wall_seconds(detail)
    if scenario == "Offline":
        largest = detail.number("result_max_latency_ns")
        return None if largest is None else (largest, largest)
    if scenario == "MultiStream":
        shortest, longest = detail.number(QUERIES.minimum), detail.number(QUERIES.maximum)
        if wall_s is None or shortest is None or longest is None:
            return None
        return wall_s * 1e9 - longest - _CALENDAR_NS, wall_s * 1e9 - shortest + _CALENDAR_NS
    rate = detail.number(
        "result_scheduled_samples_per_sec"
        if scenario == "Server"
        else "result_qps_with_loadgen_overhead"
    )
    if not count or not rate or rate < 0:
        return None
    duration_ns = (count - 1) * 1e9 / rate
    return duration_ns * (1 - DIGITS), duration_ns * (1 + DIGITS)


def one_by_one_ns(detail: Detail, scenario: str) -> float:
    """The sum of all latencies in nanoseconds, if one query follows the other (SingleStream,
    MultiStream); else 0.
    """
    mean = {"SingleStream": SAMPLES.mean, "MultiStream": QUERIES.mean}.get(scenario)
    return (detail.number("result_query_count") or 0) * (detail.number(mean) or 0) if mean else 0.0


def min_duration_met(detail: Detail, scenario: str) -> bool | None:
    """Return whether the test was as long as its settings require. None if the log is too imprecise
    to decide, or a figure is missing.
    """
    passed, min_ms = last_issue_ns(detail, scenario), detail.number("effective_min_duration_ms")
    if passed is None or min_ms is None or passed[0] < min_ms * 1e6 <= passed[1]:
        return None
    return passed[0] >= min_ms * 1e6
