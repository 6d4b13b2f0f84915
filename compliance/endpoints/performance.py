"""The checks of performance/result_summary.json: whether the run ended by itself, and whether its
counts, windows, rates, tokens and latencies agree.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from compliance.endpoints.result import FIX, SUMMARY, Result, lookup, number, percentiles
from compliance.findings.check import judge, mismatch, quoted, shorten
from compliance.loadgen import early_stopping
from compliance.logs import files
from compliance.logs.digits import close
from formats.checks import Check, Fault, Faults

SERIES = ("ttft", "tpot", "latency")
"""The latencies: to the first token, of each later one, and of the whole answer."""
WINDOW = "legacy_loadgen_window_duration_ns"
_LEGACY = "use_legacy_loadgen_qps_metrics"
_COUNTS = ("n_samples_issued", "n_samples_completed", "n_samples_failed", "duration_ns", "qps")
_FAILURES = ("n_samples_failed", "n_samples_dropped")
_LENGTHS = "output_sequence_lengths"
# Rates and sums are written with all digits, and some means with one decimal.
_DIGITS, _DECIMAL = 1e-9, 0.051
# The rate of tokens that a rounded mean gives has the error of its second decimal.
_SECOND_DECIMAL = 0.005
# A mean and a time that is computed from it may have this relative error.
_ROUNDING = 1e-4
# An answer without text has no length. At most this share of the answers may have none.
_MOST_EMPTY = 0.01
# The first chunk of an answer, which has no time per token, may have as many tokens as the others.
_FEWER, _MORE = 0.9, 2.0
# A Poisson schedule may be this many standard deviations shorter or longer than its mean.
_SHORTEST = 6


def checks(result: Result) -> list[Check]:
    """The checks of result_summary.json, if it can be read."""
    summary, least_s, file = result.summary, result.least_ms / 1000, result.show(SUMMARY)
    if not summary:
        return []
    found = {
        "complete-run": (_cut_off(summary), "it ended by itself"),
        "performance-errors": (_failed(summary), "no query failed"),
        "counts": (_counts(summary), "counts, windows and rates agree"),
        "latencies": (_latencies(result), "latencies and lengths of answers agree"),
        "early-stopping": (_estimates(result), "they fit the count"),
        "duration": (_times(summary), "the latencies fit into the time"),
    }
    return [
        *(judge(name, faults, good, file, fix=FIX) for name, (faults, good) in found.items()),
        judge("measured-duration", _too_short(summary, least_s), f"at least {least_s:g} s", file),
        judge("least-count", _too_few(result), "as many as the round requires", file),
    ]


def _cut_off(summary: dict[str, Any]) -> Faults:
    who = "a run that ended by itself has"
    for key, expected in (("state", "complete"), ("complete", True)):
        if summary.get(key) != expected:
            yield mismatch(key, quoted(summary.get(key)), repr(expected), who)


def _failed(summary: dict[str, Any]) -> Faults:
    for key in _FAILURES:
        if (key in summary or key == _FAILURES[0]) and number(summary, key) != 0:
            yield mismatch(key, quoted(summary.get(key)), 0)


def _counts(summary: dict[str, Any]) -> Faults:
    lacking = [key for key in _COUNTS if number(summary, key) is None]
    for key in lacking:
        yield mismatch(key, quoted(summary.get(key)), "a number", "it must be")
    if lacking:
        return
    issued, completed = summary["n_samples_issued"], summary["n_samples_completed"]
    if issued != completed:
        yield mismatch("n_samples_issued", issued, completed, "n_samples_completed is")
    yield from _tokens(summary, completed)
    yield from _rates(summary, completed)


def _tokens(summary: dict[str, Any], completed: float) -> Faults:
    """Yield a fault if the sum of tokens and its mean are those of more samples than completed, or
    of fewer than answers with text can be.
    """
    total, mean = (number(summary, f"{_LENGTHS}.{key}") for key in ("total", "avg"))
    if total is None or not mean or mean < 0 or completed <= 0:
        return
    samples = total / mean
    slack = completed * (_DIGITS + _DECIMAL / mean)
    if not completed * (1 - _MOST_EMPTY) - slack <= samples <= completed + slack:
        text = f"{total} tokens at {mean} a sample are those of {samples:g} samples"
        yield Fault(f"{text}; n_samples_completed is {completed}", str(completed), f"{samples:g}")


def _rates(summary: dict[str, Any], completed: float) -> Faults:
    """Yield a fault for each rate that its count and window do not give (metrics/report.py,
    from_snapshot).
    """
    window_ns = number(summary, WINDOW)
    legacy = lookup(summary, f"run_config.load_pattern.{_LEGACY}") is True
    if legacy and window_ns is None and completed > 1:
        yield mismatch(WINDOW, None, "a number", f"with {_LEGACY} it is")
    if window_ns is not None and not legacy:
        yield mismatch(WINDOW, window_ns, "none", f"without {_LEGACY} there is")
    queries, of = completed, "n_samples_completed and duration_ns"
    span_ns = summary["duration_ns"]
    if window_ns is not None:
        queries, of = completed - 1, f"n_samples_completed - 1 and {WINDOW}"
        span_ns = window_ns
    if span_ns <= 0:
        yield mismatch("duration_ns", span_ns, "more than 0", "it must be")
        return
    tokens = number(summary, f"{_LENGTHS}.total")
    for key, count in (("qps", queries), ("tps", tokens)):
        stated = number(summary, key)
        if count is None or stated is None:
            if count is not stated:
                yield mismatch(key, stated, count, "the count of output tokens is")
        elif not close(stated, count / span_ns * 1e9, _digits(key, summary)):
            who = f"{of} give" if key == "qps" else "output tokens and the same window give"
            yield mismatch(key, stated, count / span_ns * 1e9, who)


def _digits(key: str, summary: dict[str, Any]) -> float:
    """The relative error of a rate. A result that was passed on may have a sum of tokens that was
    computed from a mean with two decimals.
    """
    mean = number(summary, f"{_LENGTHS}.avg")
    if key == "tps" and mean and mean == round(mean, 2):
        return _DIGITS + _SECOND_DECIMAL / abs(mean)
    return _DIGITS


def _latencies(result: Result) -> Faults:
    """Yield a fault for each kind of latency and for the lengths of answers, if its figures are not
    in order, and for a first token that comes after the whole answer.
    """
    completed = number(result.summary, "n_samples_completed") or 0
    for kind in (*SERIES, _LENGTHS):
        series = result.summary.get(kind)
        if series and kind != _LENGTHS:
            yield from _disorder(kind, series, result)
        yield from _spread(kind, series, completed)
    yield from _pace(result.summary, completed)
    if result.summary.get("ttft"):
        for key in ("min", "avg", "max"):
            first, whole = (number(result.summary, f"{kind}.{key}") for kind in ("ttft", "latency"))
            if first is not None and whole is not None and first > whole:
                yield mismatch(f"ttft.{key}", first, f"at most {whole}", "latency allows")
        if number(result.summary, "ttft.max") == 0:
            yield "every latency of the first token is 0"
    if not result.summary.get("latency"):
        yield "latency is missing"


def _spread(kind: str, series: Any, completed: float) -> Faults:
    """Yield a fault for a mean or median outside of minimum and maximum, for a median that is not
    percentile 50, and for a standard deviation that numbers within these bounds cannot have.
    """
    low, mean, high, median, deviation = (
        number(series, key) for key in ("min", "avg", "max", "median", "std_dev")
    )
    for name, value in (("avg", mean), ("median", median)):
        if value is None:
            continue
        if (low is not None and value < low) or (high is not None and value > high):
            yield mismatch(f"{kind}.{name}", value, f"{low} to {high}", "minimum and maximum are")
    half = dict(percentiles(lookup(series, "percentiles"))).get(50.0)
    if half is not None and median is not None and not close(median, half, _ROUNDING):
        yield mismatch(f"{kind}.median", median, half, "percentile 50 is")
    if deviation is None or low is None or mean is None or high is None:
        return
    # Bhatia and Davis, A Better Bound on the Variance, for the deviation of a sample
    most = math.sqrt(max((high - mean) * (mean - low), 0) * completed / max(completed - 1, 1))
    if not 0 <= deviation <= most * (1 + _ROUNDING) + _DECIMAL:
        yield mismatch(f"{kind}.std_dev", deviation, f"at most {most:g}", "min, avg and max allow")


def _pace(summary: dict[str, Any], completed: float) -> Faults:
    """Yield a fault if the answers have more or fewer tokens than the time after their first chunk
    allows. A time per token is that time over the tokens after the first chunk
    (metrics_aggregator, TpotTrigger).
    """
    whole_ns, first_ns = number(summary, "latency.avg"), number(summary, "ttft.avg")
    fast_ns, slow_ns = number(summary, "tpot.min"), number(summary, "tpot.max")
    total = number(summary, f"{_LENGTHS}.total")
    if whole_ns is None or first_ns is None or total is None or completed <= 0:
        return
    name, mean, after_ns = "the mean length of answers", total / completed, whole_ns - first_ns
    time = f"the {after_ns / 1e6:g} ms after the first token are"
    if slow_ns and slow_ns > 0 and mean < after_ns / slow_ns * _FEWER:
        least = f"at least {after_ns / slow_ns:g} tokens"
        yield mismatch(name, f"{mean:g}", f"{least}, by tpot.max", time)
    if fast_ns and fast_ns > 0 and mean > (after_ns / fast_ns + 1) * _MORE:
        most = f"at most {after_ns / fast_ns:g} tokens"
        yield mismatch(name, f"{mean:g}", f"{most}, by tpot.min", time)


def _disorder(kind: str, series: Any, result: Result) -> Faults:
    low, mean, high = (number(series, key) for key in ("min", "avg", "max"))
    if low is None or mean is None or high is None or not 0 <= low <= mean <= high:
        lowest, middle, highest = shorten(low), shorten(mean), shorten(high)
        yield f"{kind}: min {lowest}, avg {middle} and max {highest} are not in order"
        return
    rows = percentiles(lookup(series, "percentiles"))
    if not rows or any(value is None for _, value in rows):
        yield f"{kind}: the percentiles are missing or no numbers"
        return
    for (one, value), (other, next_value) in pairwise(rows):
        if one == other or (value or 0) > (next_value or 0):
            yield f"{kind}: percentile {one:g} is {value} and percentile {other:g} is {next_value}"
    judged = result.rules.scenarios.get(result.scenario)
    for percentile, value in rows:
        if judged and percentile == judged.percentile and not low <= (value or 0) <= high:
            yield f"{kind}: percentile {percentile:g} is {value}, and {low} to {high} were measured"
    completed = number(result.summary, "n_samples_completed") or 0
    faults, why = files.reckon(lambda: list(_histogram(kind, series, rows, completed)))
    yield from [f"{kind}: the histogram is damaged ({why})"] if faults is None else faults


def _histogram(
    kind: str, series: Any, rows: list[tuple[float, float | None]], completed: float
) -> Faults:
    """Yield a fault for each percentile that is more than a bucket away from its place in the
    histogram, and if the histogram is of another count. The bounds of its buckets are approximate.
    """
    buckets, counts = lookup(series, "histogram.buckets"), lookup(series, "histogram.counts")
    if not buckets or not counts:
        return
    total = sum(counts)
    if total > completed or (kind == "latency" and total != completed):
        yield mismatch(f"{kind}: the sum of the histogram", total, completed, "completed were")
        return
    for percentile, value in rows:
        below = sum(high < (value or 0) for _, high in buckets)
        least, most = sum(counts[: max(below - 1, 0)]), sum(counts[: below + 2])
        if not least <= percentile / 100 * total <= most:
            text = (
                f"{kind}: percentile {percentile:g} is {value}; by the histogram {least} to {most}"
            )
            yield f"{text} of {total} are below it"


def _estimates(result: Result) -> Faults:
    """Yield a fault for each early-stopping estimate below its percentile, and for each that the
    count of samples does not allow or requires (metrics/early_stopping.py).
    """
    completed = int(number(result.summary, "n_samples_completed") or 0)
    if not 0 < completed <= early_stopping.MOST_QUERIES:
        return
    for kind in SERIES:
        measured = dict(percentiles(lookup(result.summary, f"{kind}.percentiles")))
        block = lookup(result.summary, f"{kind}.early_stopping_percentiles")
        for percentile, estimate in percentiles(block):
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


def _times(summary: dict[str, Any]) -> Faults:
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
    rate, at_once = number(pattern, "target_qps"), number(pattern, "target_concurrency")
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


def _after_schedule(summary: dict[str, Any], completed: float, rate: float) -> Faults:
    """Yield a fault if the window of a rate ends later than the last query of a Poisson schedule
    can be answered.
    """
    window_ns, longest_ns = number(summary, WINDOW), number(summary, "latency.max")
    if window_ns is None or longest_ns is None:
        return
    issued_s = (completed + _SHORTEST * math.sqrt(max(completed, 0))) / rate
    most_s = issued_s + longest_ns / 1e9
    if window_ns / 1e9 > most_s:
        text = (
            f"{WINDOW} is {window_ns / 1e9:g} s; a schedule of {rate:g} queries/s and latency.max"
        )
        yield Fault(f"{text} end after {most_s:g} s at most")


def _too_short(summary: dict[str, Any], least_s: float) -> Faults:
    duration_ns = number(summary, "duration_ns")
    if duration_ns is None:
        return  # the check of the counts reports it
    duration_s = duration_ns / 1e9
    if duration_s < least_s:
        text = f"{duration_s:g} s were measured; the round requires {least_s:g} s"
        yield Fault(text, f"at least {least_s:g} s", f"{duration_s:g} s")


def _too_few(result: Result) -> Faults:
    """Yield a fault if the run has fewer samples than the round requires: those of Offline's query,
    or as many as early stopping needs.
    """
    scenario, row = result.rules.scenarios.get(result.scenario), result.row
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
