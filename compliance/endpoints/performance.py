"""The checks of performance/result_summary.json: whether the run ended by itself, and whether its
counts, windows, rates, tokens and latencies agree.
"""

from __future__ import annotations

import math

from compliance.endpoints import latencies
from compliance.endpoints.result import (
    FIX,
    LENGTHS,
    SERIES,
    SUMMARY,
    WINDOW,
    Result,
    again,
    number,
    percentiles,
)
from compliance.findings.check import differs, judge, mismatch, quoted
from compliance.loadgen import early_stopping
from compliance.logs.digits import close
from compliance.logs.strict_json import Document, lookup
from formats.checks import Checks, Fault, Faults

_LEGACY = "use_legacy_loadgen_qps_metrics"
_COUNTS = ("n_samples_issued", "n_samples_completed", "n_samples_failed", "duration_ns", "qps")
_FAILURES = ("n_samples_failed", "n_samples_dropped")
# Rates and sums are written with all digits, and some means with one decimal.
_DIGITS = 1e-9
_DECIMAL = 0.051
# The rate of tokens that a rounded mean gives has the error of its second decimal.
_SECOND_DECIMAL = 0.005
# A mean and a time that is computed from it may have this relative error.
_ROUNDING = 1e-4
# An answer without text has no length. At most this share of the answers may have none.
_MOST_EMPTY = 0.01
# A Poisson schedule may be this many standard deviations shorter or longer than its mean.
_SHORTEST = 6


def checks(result: Result) -> Checks:
    """The checks of result_summary.json, if it can be read."""
    summary = result.summary
    least_s = result.least_ms / 1000
    file = result.show(SUMMARY)
    if not summary:
        return []
    found = {
        "complete-run": (_cut_off(summary), "it ended by itself"),
        "performance-errors": (_failed(summary), "no query failed"),
        "counts": (_counts(summary), "counts, windows and rates agree"),
        "latencies": (latencies.faults(result), "latencies and lengths of answers agree"),
        "early-stopping": (_estimates(result), "they fit the count"),
        "duration": (_times(summary), "the latencies fit into the time"),
    }
    return [
        *(judge(name, faults, good, file, fix=FIX) for name, (faults, good) in found.items()),
        judge("measured-duration", _too_short(summary, least_s), f"at least {least_s:g} s", file),
        judge("least-count", _too_few(result), "as many as the round requires", file),
    ]


def _cut_off(summary: Document) -> Faults:
    who = "a run that ended by itself has"
    for key, expected in (("state", "complete"), ("complete", True)):
        if summary.get(key) != expected:
            yield mismatch(key, quoted(summary.get(key)), repr(expected), who)


def _failed(summary: Document) -> Faults:
    for key in _FAILURES:
        if (key in summary or key == _FAILURES[0]) and number(summary, key) != 0:
            yield mismatch(key, quoted(summary.get(key)), 0)


def _counts(summary: Document) -> Faults:
    lacking = [key for key in _COUNTS if number(summary, key) is None]
    for key in lacking:
        yield mismatch(key, quoted(summary.get(key)), "a number", "it must be")
    if lacking:
        return
    issued = summary["n_samples_issued"]
    completed = summary["n_samples_completed"]
    if issued != completed:
        yield mismatch("n_samples_issued", issued, completed, "n_samples_completed is")
    yield from _tokens(summary, completed)
    yield from _rates(summary, completed)


def _tokens(summary: Document, completed: float) -> Faults:
    """Yield a fault if the sum of tokens and its mean are those of more samples than completed, or
    of fewer than answers with text can be.
    """
    total, mean = (number(summary, f"{LENGTHS}.{key}") for key in ("total", "avg"))
    if total is None or not mean or mean < 0 or completed <= 0:
        return
    samples = total / mean
    slack = completed * (_DIGITS + _DECIMAL / mean)
    if not completed * (1 - _MOST_EMPTY) - slack <= samples <= completed + slack:
        text = f"{total} tokens at {mean} a sample are those of {samples:g} samples"
        yield Fault(f"{text}; n_samples_completed is {completed}", str(completed), f"{samples:g}")


def _rates(summary: Document, completed: float) -> Faults:
    """Yield a fault for each rate that its count and window do not give."""
    window_ns = number(summary, WINDOW)
    legacy = lookup(summary, f"run_config.load_pattern.{_LEGACY}") is True
    if legacy and window_ns is None and completed > 1:
        yield mismatch(WINDOW, None, "a number", f"with {_LEGACY} it is")
    if window_ns is not None and not legacy:
        yield mismatch(WINDOW, window_ns, "none", f"without {_LEGACY} there is")
    span_ns = summary["duration_ns"] if window_ns is None else window_ns
    if span_ns <= 0:
        yield mismatch("duration_ns", span_ns, "more than 0", "it must be")
        return
    for key in ("qps", "tps"):
        stated = number(summary, key)
        rate, source = again(summary, key)
        if rate is None or stated is None:
            if rate is not stated:
                yield mismatch(key, stated, rate, "the count of output tokens is")
        elif not close(stated, rate, _digits(key, summary)):
            yield mismatch(key, stated, rate, f"{source} give")


def _digits(key: str, summary: Document) -> float:
    """The relative error of a rate. A result that was passed on may have a sum of tokens that was
    computed from a mean with two decimals.
    """
    mean = number(summary, f"{LENGTHS}.avg")
    if key == "tps" and mean and mean == round(mean, 2):
        return _DIGITS + _SECOND_DECIMAL / abs(mean)
    return _DIGITS


def _estimates(result: Result) -> Faults:
    """Yield a fault for each early-stopping estimate below its percentile, and for each that the
    count of samples does not allow or requires (metrics/early_stopping.py).
    """
    summary = result.summary
    completed = int(number(summary, "n_samples_completed") or 0)
    if not 0 < completed <= early_stopping.MOST_QUERIES:
        return
    for kind in SERIES:
        measured = dict(percentiles(summary, f"{kind}.percentiles"))
        estimates = percentiles(summary, f"{kind}.early_stopping_percentiles")
        for percentile, estimate in estimates:
            name = f"{kind}: the early-stopping estimate of percentile {percentile:g}"
            value = measured.get(percentile)
            share = percentile / 100
            few = not early_stopping.enough(completed, 1, share, result.rules)
            if estimate is not None and few:
                yield mismatch(name, estimate, "none", f"with {completed} samples there is")
            elif estimate is None and not few and kind == "latency":
                yield mismatch(name, None, "a number", f"with {completed} samples it is")
            elif estimate is not None and value is not None and estimate < value:
                yield mismatch(name, estimate, f"at least {value}", "the percentile is")


def _times(summary: Document) -> Faults:
    """Yield a fault for each latency or window that is longer than the run, and for a run that is
    shorter than its schedule.
    """
    duration_ns = number(summary, "duration_ns")
    completed = number(summary, "n_samples_completed")
    if duration_ns is None or completed is None:
        return  # the check of the counts reports it
    for key in ("latency.max", WINDOW):
        value = number(summary, key)
        if value is not None and value > duration_ns:
            yield mismatch(key, value, f"at most {duration_ns}", "duration_ns is")
    pattern = lookup(summary, "run_config.load_pattern")
    rate = number(pattern, "target_qps")
    at_once = number(pattern, "target_concurrency")
    mean_ns = number(summary, "latency.avg")
    if lookup(pattern, "type") == "poisson" and rate and rate > 0:
        least_s = (completed - 1 - _SHORTEST * math.sqrt(max(completed, 0))) / rate
        span_s = min(duration_ns, number(summary, WINDOW) or duration_ns) / 1e9
        if span_s < least_s:
            text = f"n_samples_completed is {completed:.0f} after {span_s:g} s; a schedule of"
            yield f"{text} {rate:g} queries/s takes {least_s:g} s or more"
        yield from _after_schedule(summary, completed, rate)
    elif at_once and at_once > 0 and mean_ns is not None:
        busy_ns = completed * mean_ns / at_once
        if busy_ns > duration_ns * (1 + _ROUNDING):
            text = f"{completed:.0f} times {mean_ns / 1e6:g} ms, {at_once:g} at once, take"
            yield f"{text} {busy_ns / 1e9:g} s; duration_ns is {duration_ns}"


def _after_schedule(summary: Document, completed: float, rate: float) -> Faults:
    """Yield a fault if the window of a rate ends later than the last query of a Poisson schedule
    can be answered.
    """
    window_ns = number(summary, WINDOW)
    longest_ns = number(summary, "latency.max")
    if window_ns is None or longest_ns is None:
        return
    issued_s = (completed + _SHORTEST * math.sqrt(max(completed, 0))) / rate
    most_s = issued_s + longest_ns / 1e9
    if window_ns / 1e9 > most_s:
        text = (
            f"{WINDOW} is {window_ns / 1e9:g} s; a schedule of {rate:g} queries/s and latency.max"
        )
        yield Fault(f"{text} end after {most_s:g} s at most")


def _too_short(summary: Document, least_s: float) -> Faults:
    duration_ns = number(summary, "duration_ns")  # if there is none, the check of the counts fails
    if duration_ns is not None and duration_ns / 1e9 < least_s:
        least = f"{least_s:g} s"
        sentence = "{found} were measured; the round requires {least}"
        yield differs(sentence, f"{duration_ns / 1e9:g} s", f"at least {least}", least=least)


def _too_few(result: Result) -> Faults:
    """Yield a fault if the run has fewer samples than the round requires: those of Offline's query,
    or as many as early stopping needs.
    """
    scenario = result.rules.scenarios.get(result.scenario)
    row = result.row
    if scenario is None:
        return
    least = scenario.least_count
    if row and result.scenario == "Offline":
        least = row.offline_samples or least
    elif row:
        least = min(least, row.performance_sample_count)
    completed = number(result.summary, "n_samples_completed") or 0
    if completed < least:
        stated = f"{completed:.0f}"
        yield mismatch("n_samples_completed", stated, f"at least {least}", "the round requires")
