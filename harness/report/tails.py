"""Sentences on the plain 90th percentiles of latencies. SUTs are compared by their medians, and these follow them."""

from __future__ import annotations

from statistics import median

from harness.comparison import statistics, tables
from harness.comparison.runs import Run
from harness.comparison.tables import Group
from harness.figure import short
from harness.report.contest import Contest

_LEAST_QUERIES = 64
"""As many queries as LoadGen needs for its estimate of a 90th percentile."""


def sentences(contest: Contest) -> list[str]:
    """One sentence with the 90th percentile of each SUT, the lowest first, and how many times as long the others are.

    There is none of a throughput or a training, of an inconclusive comparison, or if there is only one SUT.
    """
    runs = [run for group in contest.good for run in group.good]
    if len(contest.good) < 2 or contest.inconclusive or not all(map(_p90, runs)):
        return []
    queries = sorted(int(run.result.measured.get("samples", 0)) for run in runs)
    count = f"{queries[0]:,}" if queries[0] == queries[-1] else f"{queries[0]:,} to {queries[-1]:,}"
    asked = f"90th percentile of the latency (less is better), of {count} queries a run"
    if queries[0] < _LEAST_QUERIES:
        return [f"{asked}: {_LEAST_QUERIES} are needed, so it is not compared (--duration sets a longer test)"]
    first, *others = sorted(contest.good, key=_median_ms)
    texts = [f"{first.sut} {short(_median_ms(first))} ms"]
    pooled = tables.pool(contest.good, value=_p90)
    for group in others:
        ratio = pooled.ratio(first.sut, group.sut) or _unpaired(first, group, compared=len(contest.good))
        texts.append(f"{group.sut} {short(_median_ms(group))} ms ({_longer(ratio)})")
    return [f"{asked}: {', '.join(texts)}"]


def _p90(run: Run) -> float | None:
    """The plain 90th percentile of a run's latencies, in milliseconds. None if it asked for all samples at once."""
    return run.result.metrics.get("latency_p90_ms")


def _every_ms(group: Group) -> list[float]:
    return [value for run in group.good if (value := _p90(run))]


def _median_ms(group: Group) -> float:
    return median(_every_ms(group))


def _unpaired(first: Group, group: Group, compared: int) -> statistics.Ratio:
    return statistics.compare(_every_ms(first), _every_ms(group), higher_is_better=False, paired=False, compared=compared)


def _longer(ratio: statistics.Ratio) -> str:
    """How a 90th percentile compares with the lowest one. `ratio` is the speed of the SUT with the lowest one over that of this SUT."""
    if ratio.low is None or ratio.high is None:
        return "too few runs to compare"
    if not ratio.different:
        return "not shown to be higher"
    return f"{ratio.value:.3g} times as long, {statistics.interval(ratio.low, ratio.high)}"
