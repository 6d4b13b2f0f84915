"""How long a performance test took by its figures (loadgen/results.cc, MinDurationMet)."""

from __future__ import annotations

from compliance.loadgen.latency_keys import QUERIES, SAMPLES
from compliance.logs import Detail
from compliance.logs.dates import wall_seconds
from compliance.logs.digits import DIGITS

# Of two dates of whole milliseconds.
_CALENDAR_NS = 2e6


def last_issue_ns(detail: Detail, scenario: str) -> tuple[float, float] | None:
    """Between which times lies what min_duration is compared with.

    Offline: its largest latency; SingleStream and Server: when the last query was issued, or due (from the rate, which has six digits);
    MultiStream, which logs no rate: the last query is answered at the end of all, which the calendar tells to the millisecond.
    """
    count, wall_s = detail.number("result_query_count"), wall_seconds(detail)
    if scenario == "Offline":
        found = detail.number("result_max_latency_ns")
        return None if found is None else (found, found)
    if scenario == "MultiStream":
        shortest, longest = detail.number(QUERIES.minimum), detail.number(QUERIES.maximum)
        if wall_s is None or shortest is None or longest is None:
            return None
        return wall_s * 1e9 - longest - _CALENDAR_NS, wall_s * 1e9 - shortest + _CALENDAR_NS
    rate = detail.number("result_scheduled_samples_per_sec" if scenario == "Server" else "result_qps_with_loadgen_overhead")
    if not count or not rate or rate < 0:
        return None
    found = (count - 1) * 1e9 / rate
    return found * (1 - DIGITS), found * (1 + DIGITS)


def one_by_one_ns(detail: Detail, scenario: str) -> float:
    """What the queries took that were issued one after the other."""
    mean = {"SingleStream": SAMPLES.mean, "MultiStream": QUERIES.mean}.get(scenario)
    return (detail.number("result_query_count") or 0) * (detail.number(mean) or 0) if mean else 0.0


def min_duration_met(detail: Detail, scenario: str) -> bool | None:
    """None: too close to tell from six digits, or figures missing (another check says so)."""
    passed, least_ms = last_issue_ns(detail, scenario), detail.number("effective_min_duration_ms")
    if passed is None or least_ms is None or passed[0] < least_ms * 1e6 <= passed[1]:
        return None
    return passed[0] >= least_ms * 1e6
