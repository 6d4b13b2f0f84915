"""The figure of a result as MLCommons publishes it, and the same figure computed again from the
trace or from other figures of the log.

Sources: submission_checker, checks/performance_check.py (get_performance_metric_check,
get_inferred_result) and constants.py (RESULT_FIELD_NEW, UNIT_DICT and their exceptions).
"""

from __future__ import annotations

from dataclasses import dataclass

from compliance.checks.logs import trace
from compliance.loadgen import rates
from compliance.loadgen.early_stopping import discards
from compliance.loadgen.log import Log
from compliance.loadgen.rates import Bounds
from compliance.rules import ReportedMetric
from compliance.subject import Subject


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
    """The figure of a performance test; None if its log has none. LoadGen logs 0 if early stopping
    had too few queries, or if it counted no token, and 0 is no figure.
    """
    log = subject.log
    scenario = subject.place.scenario
    metric = subject.rules.metric(scenario, log.scenario, subject.official, log.has_tokens)
    value = log.number(metric.key)
    if not value:
        return None
    return Figure(metric.text(value), _words(metric, log, subject), _again(metric, subject))


def _words(metric: ReportedMetric, log: Log, subject: Subject) -> str:
    """What the figure is, with the percentile that LoadGen estimated, and that of the round if it
    is another one.
    """
    words = metric.words.format(percentile=log.percentile)
    of_round = subject.rules.scenarios[log.scenario].percentile
    if words != metric.words and log.percentile != of_round:
        words += f"; {subject.rules.round} takes {of_round:g} %"
    return words


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
    key = metric.key
    seen = subject.trace
    log = subject.log
    if seen and len(seen.latency_ns) and not metric.higher_is_better:
        exact = trace.exact(seen, log).get(key)
        if exact is not None:
            return (exact, exact), "the trace"
    rate = rates.of(log).get(key)
    if rate:
        bounds = rate.bounds(log)
        source = rate.source
    elif key in log.estimates:
        bounds = _estimate(key, log)
        source = "the logged percentiles around it"
    else:
        no_count = key == "result_tokens_per_second"
        return None, "the log has no count of tokens" if no_count else "there is no trace"
    return bounds, source if bounds else "a figure is missing"


def _estimate(key: str, log: Log) -> Bounds | None:
    """The limits of an estimate of early stopping: the logged percentiles around its rank among all
    latencies. None if there are too few queries, or a figure is missing.
    """
    queries = log.queries
    left_out = queries and discards(queries, log.estimates[key] / 100, log.rules)
    if queries is None or left_out is None:
        return None
    rank = queries - left_out - 1
    points = log.estimated.percentiles(log)
    low = [value for _, share, value in points if int(queries * share) <= rank]
    high = [value for _, share, value in points if int(queries * share) >= rank]
    return (low[-1], high[0]) if low and high else None
