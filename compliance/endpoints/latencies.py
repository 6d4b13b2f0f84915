"""The faults of the latencies and the lengths of answers in result_summary.json: figures of one
series that do not agree, and tokens that do not fit into the times.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from compliance.endpoints.result import LENGTHS, SERIES, Result, number, percentiles
from compliance.findings.check import mismatch, shorten
from compliance.logs import files
from compliance.logs.digits import close
from compliance.logs.strict_json import Document, lookup
from formats.checks import Faults

# Some means are written with one decimal.
_DECIMAL = 0.051
# A mean and a time that is computed from it may have this relative error.
_ROUNDING = 1e-4
# The first chunk of an answer, which has no time per token, may have as many tokens as the others.
_FEWER = 0.9
_MORE = 2.0
_AGENTIC = "agentic_inference"


def faults(result: Result) -> Faults:
    """Yield a fault for each kind of latency and for the lengths of answers, if its figures are not
    in order, and for a first token that comes after the whole answer.
    """
    summary = result.summary
    completed = number(summary, "n_samples_completed") or 0
    for kind in (*SERIES, LENGTHS):
        series = summary.get(kind)
        if series and kind != LENGTHS:
            yield from _disorder(kind, series, result)
        yield from _spread(kind, series, completed)
    yield from _pace(summary, completed)
    if summary.get("ttft"):
        for key in ("min", "avg", "max"):
            first, whole = (number(summary, f"{kind}.{key}") for kind in ("ttft", "latency"))
            if first is not None and whole is not None and first > whole:
                yield mismatch(f"ttft.{key}", first, f"at most {whole}", "latency allows")
        if number(summary, "ttft.max") == 0:
            yield "every latency of the first token is 0"
    if not summary.get("latency"):
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
    half = dict(percentiles(series, "percentiles")).get(50.0)
    if half is not None and median is not None and not close(median, half, _ROUNDING):
        yield mismatch(f"{kind}.median", median, half, "percentile 50 is")
    if deviation is None or low is None or mean is None or high is None:
        return
    # Bhatia and Davis, A Better Bound on the Variance, for the deviation of a sample
    most = math.sqrt(max((high - mean) * (mean - low), 0) * completed / max(completed - 1, 1))
    if not 0 <= deviation <= most * (1 + _ROUNDING) + _DECIMAL:
        yield mismatch(f"{kind}.std_dev", deviation, f"at most {most:g}", "min, avg and max allow")


def _pace(summary: Document, completed: float) -> Faults:
    """Yield a fault if the answers have more or fewer tokens than the time after their first chunk
    allows. A time per token is that time over the tokens after the first chunk
    (metrics_aggregator, TpotTrigger). Answers that call tools have none, so turns of an agent are
    not compared.
    """
    if lookup(summary, "run_config.load_pattern.type") == _AGENTIC:
        return
    whole_ns = number(summary, "latency.avg")
    first_ns = number(summary, "ttft.avg")
    fast_ns = number(summary, "tpot.min")
    slow_ns = number(summary, "tpot.max")
    total = number(summary, f"{LENGTHS}.total")
    if whole_ns is None or first_ns is None or total is None or completed <= 0:
        return
    name = "the mean length of answers"
    mean = total / completed
    after_ns = whole_ns - first_ns
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
        lowest = shorten(low)
        middle = shorten(mean)
        highest = shorten(high)
        yield f"{kind}: min {lowest}, avg {middle} and max {highest} are not in order"
        return
    rows = percentiles(series, "percentiles")
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
    buckets = lookup(series, "histogram.buckets")
    counts = lookup(series, "histogram.counts")
    if not buckets or not counts:
        return
    total = sum(counts)
    if total > completed or (kind == "latency" and total != completed):
        yield mismatch(f"{kind}: the sum of the histogram", total, completed, "completed were")
        return
    for percentile, value in rows:
        below = sum(high < (value or 0) for _, high in buckets)
        least = sum(counts[: max(below - 1, 0)])
        most = sum(counts[: below + 2])
        if not least <= percentile / 100 * total <= most:
            text = (
                f"{kind}: percentile {percentile:g} is {value}; by the histogram {least} to {most}"
            )
            yield f"{text} of {total} are below it"
