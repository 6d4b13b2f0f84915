"""The rates in a performance test's log, computed again from its other figures
(loadgen/results.cc). All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from compliance.loadgen.latency_keys import SAMPLES
from compliance.loadgen.log import Log
from compliance.logs.digits import DIGITS

Bounds = tuple[float, float]
ISSUED_TOKENS = "result_token_throughput_with_loadgen_overhead"
COMPLETED_TOKENS = "result_completed_tokens_per_second"
THROUGHPUT = "result_token_throughput"
_SCHEDULED = "result_scheduled_samples_per_sec"
_ISSUED = {"SingleStream": "result_qps_with_loadgen_overhead", "Server": _SCHEDULED}
"""Scenario → the key of the queries a second until the last one was issued or due."""


@dataclass(frozen=True)
class Rate:
    """How a logged rate follows from other figures.

    Attributes:
        bounds: its least and its largest value; None: a figure is missing.
        source: those figures, for a sentence.
        digits: the relative error of a value that is computed from logged figures.
    """

    bounds: Callable[[Log], Bounds | None]
    source: str
    digits: float = DIGITS


def of(log: Log) -> Mapping[str, Rate]:
    """Key of each rate that can be computed again → how."""
    rates = dict(_RATES.get(log.scenario, {}))
    if log.has_tokens:
        rates |= _TOKEN_RATES.get(log.scenario, {})
    return rates


def _offline(log: Log) -> Bounds | None:
    """All samples in the time until the last answer."""
    longest_ns = log.number(SAMPLES.maximum)
    if not log.samples or not longest_ns:
        return None
    rate = log.samples * 1e9 / longest_ns
    return rate, rate


def _one_by_one(log: Log) -> Bounds | None:
    """The rate if each query began when the one before it ended. The mean is cut to whole
    nanoseconds, which shows in short latencies.
    """
    mean_ns = log.number(SAMPLES.mean)
    return (1e9 / (mean_ns + 1), 1e9 / mean_ns) if mean_ns and mean_ns > 0 else None


def _completed(log: Log) -> Bounds | None:
    """Server's completed queries a second. The last one is due after (queries - 1) / scheduled
    rate. The log does not have its latency, which is between the smallest and the largest one.
    """
    scheduled = log.number(_SCHEDULED)
    more = (log.queries or 0) - 1
    if scheduled is None or more < 1 or scheduled <= 0:
        return None
    return _within_latencies(log, more, more / scheduled)


def _within_latencies(log: Log, count: float, issued_s: float) -> Bounds | None:
    """`count` over the time until the last answer, whose query was issued after `issued_s`."""
    least_ns = log.number(SAMPLES.minimum)
    most_ns = log.number(SAMPLES.maximum)
    if least_ns is None or most_ns is None or least_ns < 0 or most_ns < 0 or issued_s <= 0:
        return None
    return count / (issued_s + most_ns / 1e9), count / (issued_s + least_ns / 1e9)


def _tokens(log: Log) -> float | None:
    """The number of tokens, which the log does not have. It follows from result_token_throughput,
    which is tokens a nanosecond of latency.
    """
    mean_ns = log.number(SAMPLES.mean)
    throughput = log.number(THROUGHPUT)
    if mean_ns is None or throughput is None:
        return None
    return throughput * mean_ns * (log.queries or 0)


def _tokens_at(log: Log, key: str) -> float | None:
    """The tokens a second in the time that follows from a rate of queries."""
    tokens = _tokens(log)
    rate = log.number(key)
    more = (log.queries or 0) - 1
    return None if tokens is None or rate is None or more < 1 else tokens * rate / more


def _issued_tokens(log: Log) -> Bounds | None:
    """The tokens a second until the last query was issued (SingleStream)."""
    rate = _tokens_at(log, _ISSUED[log.scenario])
    return None if rate is None else (rate, rate)


def _completed_tokens(log: Log) -> Bounds | None:
    """SingleStream's completed tokens a second. The log does not have the latency of the last
    query.
    """
    tokens = _tokens(log)
    issued = _issued_tokens(log)
    if not tokens or not issued or not issued[0]:
        return None
    return _within_latencies(log, tokens, tokens / issued[0])


def _issued_tokens_of_server(log: Log) -> Bounds | None:
    """The last query is issued when it is due or later, and before the last answer."""
    rate = log.number(COMPLETED_TOKENS)
    due = _issued_tokens(log)
    return (rate, due[0] if due else rate) if rate is not None else None


def _completed_tokens_of_server(log: Log) -> Bounds | None:
    """The time follows from the rate of completed queries."""
    rate = _tokens_at(log, "result_completed_samples_per_sec")
    return None if rate is None else (rate, rate)


_OF_TOKENS = "the token throughput, the mean latency and the rate of queries"
_RATES = {
    "Offline": {"result_samples_per_second": Rate(_offline, "the count and the largest latency")},
    "SingleStream": {"result_qps_without_loadgen_overhead": Rate(_one_by_one, "the mean latency")},
    "Server": {
        "result_completed_samples_per_sec": Rate(
            _completed, "the schedule and the latencies", 2 * DIGITS
        )
    },
}
# A rate of tokens is the product of four logged figures.
_TOKEN_RATES = {
    "SingleStream": {
        ISSUED_TOKENS: Rate(_issued_tokens, _OF_TOKENS, 4 * DIGITS),
        COMPLETED_TOKENS: Rate(_completed_tokens, _OF_TOKENS, 4 * DIGITS),
    },
    "Server": {
        COMPLETED_TOKENS: Rate(_completed_tokens_of_server, _OF_TOKENS, 4 * DIGITS),
        ISSUED_TOKENS: Rate(_issued_tokens_of_server, _OF_TOKENS, 4 * DIGITS),
    },
}
