"""Sections on the plain 90th percentiles of latencies, and the spread of latencies and step times.

SUTs are compared by their medians. The percentiles are shown after these.
"""

from __future__ import annotations

from functools import partial

from harness.comparison import statistics, tables
from harness.comparison.runs import Run
from harness.comparison.tables import Group
from harness.report.comparison import Comparison, listed
from harness.report.content import Content
from harness.report.section import Picture, Pictures, Section
from harness.report.times import times_ms
from results.figure import short
from scenarios.table import SCENARIOS

_LEAST_QUERIES = 64
"""The number of queries that LoadGen needs for its estimate of a 90th percentile."""
_MOST_PICTURES = 4


def percentiles(content: Content) -> Section:
    """The 90th percentiles of each comparison, in a sentence."""
    return Section(sentences=content.of_each(_sentences))


def _sentences(comparison: Comparison) -> list[str]:
    """Return a sentence with each SUT's 90th percentile, the lowest first, and its ratio to the
    lowest.

    There is none for a throughput, a training or an inconclusive comparison.
    """
    runs = [run for group in comparison.good for run in group.good]
    if comparison.inconclusive or not all(map(_p90, runs)):
        return []
    queries = sorted(int(run.result.measured.get("samples", 0)) for run in runs)
    count = f"{queries[0]:,}"
    if queries[0] != queries[-1]:
        count += f" to {queries[-1]:,}"
    if queries[0] < _LEAST_QUERIES:
        return [
            (
                f"90th percentile of the latency (less is better), of {count} queries a run:"
                f" {_LEAST_QUERIES} are needed, so it is not compared (--duration sets a longer"
                " test)"
            )
        ]
    first, *others = sorted(comparison.good, key=_mean_ms)
    texts = [f"{first.sut} {short(_mean_ms(first))} ms"]
    pooled = tables.pool(comparison.good, value=_p90)
    for group in others:
        ratio = pooled.ratio(first.sut, group.sut)
        ratio = ratio or _unpaired(first, group, compared=len(comparison.good))
        texts.append(f"{group.sut} {short(_mean_ms(group))} ms ({_longer(ratio)})")
    return [
        (
            f"90th percentile of the latency (less is better), of {count} queries a run:"
            f" {', '.join(texts)}"
        )
    ]


def _p90(run: Run) -> float | None:
    """Return the plain 90th percentile of a run's latencies, in milliseconds.

    None if the run issued all samples at once.
    """
    return run.result.metrics.get("latency_p90_ms")


def _every_ms(group: Group) -> list[float]:
    values = [_p90(run) for run in group.good]
    return [value for value in values if value]


def _mean_ms(group: Group) -> float:
    return statistics.geometric_mean(_every_ms(group))


def _unpaired(first: Group, group: Group, compared: int) -> statistics.Ratio:
    return statistics.compare(
        _every_ms(first),
        _every_ms(group),
        higher_is_better=False,
        paired=False,
        compared=compared,
    )


def _longer(ratio: statistics.Ratio) -> str:
    """Return how a 90th percentile compares with the lowest one, in words.

    `ratio` is the speed of the SUT with the lowest one over that of this SUT.
    """
    if ratio.low is None or ratio.high is None:
        return "too few runs to compare"
    if not ratio.different:
        return "not shown to be higher"
    between = statistics.interval(ratio.low, ratio.high)
    return f"{ratio.value:.3g} times as long, {between}"


def spread(content: Content) -> Section:
    """The spread of the latencies of queries and the times of training steps, in the last runs."""

    def pictures() -> Pictures:
        comparisons = [
            comparison for comparison in content.with_rivals if not comparison.higher_is_better
        ]
        drawn = [_picture(comparison) for comparison in comparisons[:_MOST_PICTURES]]
        shown = [picture for picture in drawn if picture]
        return Pictures(shown=shown, more=max(0, len(comparisons) - _MOST_PICTURES))

    return Section(title="How latencies and step times are spread", pictures=pictures)


def _picture(comparison: Comparison) -> Picture | None:
    """Draw the times of the last run of each SUT. None if no run kept them."""
    from harness.report import figures

    times = {group.sut: times_ms(group) for group in comparison.good}
    kept = {sut: values for sut, values in times.items() if values is not None}
    if not kept:
        return None
    x, y = "ms a step, less is better", "% of steps"
    if SCENARIOS[comparison.groups[0].cell.scenario].loadgen:
        x, y = "latency, ms: less is better", "% of queries answered"
    caption = f"{comparison.name}, the last run of each"
    unseen = [sut for sut in times if sut not in kept]
    if unseen:
        caption += f"; no single times of {listed(unseen)}"
    draw = partial(figures.distribution, kept, x=x, y=y, title=f"times of {caption}")
    return Picture(caption=caption, draw=draw)
