"""A section on the plain 90th percentiles of latencies. SUTs are compared by their medians."""

from __future__ import annotations

from harness.comparison import statistics, tables
from harness.comparison.runs import Run
from harness.report.comparison import Comparison
from harness.report.content import Content
from harness.report.section import Section
from results.figure import short

_LEAST_QUERIES = 64
"""The number of queries that LoadGen needs for its estimate of a 90th percentile."""


def percentiles(content: Content) -> Section:
    """The 90th percentiles of each comparison, in a sentence."""
    return Section(sentences=content.of_each(_sentences))


def _sentences(comparison: Comparison) -> list[str]:
    """Return a sentence with each SUT's 90th percentile, the lowest first, and its ratio to the
    lowest.

    There is none for a throughput, a training or an inconclusive comparison.
    """
    good = comparison.good
    runs = [run for group in good for run in group.good]
    if comparison.inconclusive or not all(map(_p90, runs)):
        return []
    queries = [int(run.result.measured.get("samples", 0)) for run in runs]
    count = " to ".join(f"{number:,}" for number in dict.fromkeys((min(queries), max(queries))))
    begin = f"90th percentile of the latency (less is better), of {count} queries a run:"
    if min(queries) < _LEAST_QUERIES:
        return [
            f"{begin} {_LEAST_QUERIES} are needed, so it is not compared (--duration sets a longer"
            " test)"
        ]
    every = {group: [ms for run in group.good if (ms := _p90(run))] for group in good}
    means = {group: statistics.geometric_mean(values) for group, values in every.items()}
    first, *others = sorted(means, key=lambda group: means[group])
    texts = [f"{first.sut} {short(means[first])} ms"]
    pooled = tables.pool(good, value=_p90)
    for group in others:
        ratio = pooled.ratio(first, group) or statistics.compare(
            every[first],
            every[group],
            higher_is_better=False,
            paired=False,
            compared=len(good),
        )
        longer = "not shown to be higher"
        if ratio.low is None:
            longer = "too few runs to compare"
        elif ratio.different:
            longer = f"{ratio.value:.3g} times as long, {ratio.between}"
        texts.append(f"{group.sut} {short(means[group])} ms ({longer})")
    return [f"{begin} {', '.join(texts)}"]


def _p90(run: Run) -> float | None:
    """Return the plain 90th percentile of a run's latencies, in milliseconds.

    None if the run issued all samples at once.
    """
    return run.result.metrics.get("latency_p90_ms")
