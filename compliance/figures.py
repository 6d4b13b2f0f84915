"""The figure of a result as MLCommons publishes it, and the same figure computed again from the
trace or from other figures of the log.

Sources: submission_checker, checks/performance_check.py (get_performance_metric_check,
get_inferred_result) and constants.py (RESULT_FIELD_NEW, UNIT_DICT and their exceptions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from compliance.checks.logs import trace
from compliance.loadgen import counts, rates
from compliance.loadgen.early_stopping import MOST_QUERIES, discards, estimates
from compliance.loadgen.latency_keys import QUERIES, limited
from compliance.rules import ReportedMetric
from compliance.subject import Subject

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Figure:
    """The one number of a result.

    Attributes:
        text: the number with its unit.
        words: what it counts, or which latency it is.
        recomputed: the number as other figures give it, or its limits; or why none do.
    """

    text: str
    words: str
    recomputed: str


def of(subject: Subject) -> Figure | None:
    """The figure of a performance test; None if its log has none."""
    detail, place = subject.performance.detail, subject.place
    has_tokens = counts.has_token_latencies(detail)
    official = subject.official
    metric = subject.rules.metric(place.scenario, subject.scenario, official, has_tokens)
    value = detail.number(metric.key)
    if value is None:
        return None
    return Figure(metric.text(value), metric.words, _again(metric, subject))


def _again(metric: ReportedMetric, subject: Subject) -> str:
    """The figure as other figures give it, with their names; or why it is not computed again."""
    bounds, source = _bounds(metric, subject)
    if bounds is None:
        return f"not computed again: {source}"
    low, high = (metric.text(bound) for bound in bounds)
    if low != high:
        high = f"{low.removesuffix(f' {metric.unit}')} to {high}"
    return f"{high}, from {source}"


def _bounds(metric: ReportedMetric, subject: Subject) -> tuple[Bounds | None, str]:
    """(the limits of the logged value, their source) or (None, why there are none)."""
    key, seen = metric.key, subject.trace
    if seen and len(seen.latency_ns) and not metric.higher_is_better:
        exact = trace.exact(subject, seen).get(key)
        if exact is not None:
            return (exact, exact), "the trace"
    if key not in _FROM_THE_LOG:
        no_count = key == "result_tokens_per_second"
        return None, "the log has no count of tokens" if no_count else "there is no trace"
    compute, source = _FROM_THE_LOG[key]
    bounds = compute(subject)
    return bounds, source if bounds else "a figure is missing"


def _estimate(key: str, subject: Subject) -> Bounds | None:
    """The limits of an estimate of early stopping: the logged percentiles around its rank among all
    latencies. None if there are too few queries, or a figure is missing.
    """
    detail, scenario = subject.performance.detail, subject.scenario
    queries = detail.number("result_query_count")
    if queries is None or not 0 < queries <= MOST_QUERIES:
        return None
    percentiles = {name: each for each, name in estimates(detail, scenario, subject.rules)}
    left_out = discards(int(queries), percentiles[key] / 100, subject.rules)
    if left_out is None:
        return None
    rank = int(queries) - left_out - 1
    latency = QUERIES if scenario == "MultiStream" else limited(detail)[0]
    points = latency.percentiles(detail)
    low = [value for _, share, value in points if int(queries * share) <= rank]
    high = [value for _, share, value in points if int(queries * share) >= rank]
    return (low[-1], high[0]) if low and high else None


def _same(value: float | None) -> Bounds | None:
    return None if value is None else (value, value)


_FROM_THE_LOG: dict[str, tuple[Callable[[Subject], Bounds | None], str]] = {
    "result_samples_per_second": (
        lambda subject: _same(rates.offline(subject.performance.detail)),
        "the count and the largest latency",
    ),
    "result_completed_samples_per_sec": (
        lambda subject: rates.completed(subject.performance.detail),
        "the schedule and the latencies",
    ),
    "result_completed_tokens_per_second": (
        lambda subject: _same(rates.tokens(subject.performance.detail)),
        "the token throughput, the mean latency and the rate of queries",
    ),
    "result_qps_without_loadgen_overhead": (
        lambda subject: _same(rates.without_overhead(subject.performance.detail)),
        "the mean latency",
    ),
    "early_stopping_latency_ss": (
        partial(_estimate, "early_stopping_latency_ss"),
        "the logged percentiles around it",
    ),
    "early_stopping_latency_ms": (
        partial(_estimate, "early_stopping_latency_ms"),
        "the logged percentiles around it",
    ),
}
