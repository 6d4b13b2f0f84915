"""Sections on how speed and latency depend on batch, lengths and the rate of requests, and on the
rate that each SUT holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import Any

from formats.cell import Cell, fields_with
from formats.result import Result
from harness.comparison import compare, statistics
from harness.comparison.tables import Group
from harness.report.comparison import Comparison
from harness.report.content import MOST_SENTENCES, Content
from harness.report.section import Lines, Section
from results.figure import short
from scenarios.table import SCENARIOS

_AXES: Mapping[str, str] = fields_with("axis")
"""Field of `Cell` that is an axis → its name in words."""
_LIMITS = {
    "max_latency_ms": "",
    "max_ttft_ms": " to the first token",
    "max_tpot_ms": " a later token",
}
"""Field of `Cell` with a limit → its name in words, after the milliseconds."""
_Charts = dict[tuple[Any, ...], Lines]
"""What the cells of a chart share → the chart."""


def scaling(content: Content) -> Section:
    """A chart of the speed over each axis, and a sentence on the best batch of each SUT."""
    found = {axis: scales(content, axis) for axis in _AXES}
    return Section(
        title="Speed over batch and length",
        sentences=[_best_batches(lines) for lines in found["batch_size"]][:MOST_SENTENCES],
        pictures=[lines for of_axis in found.values() for lines in of_axis],
    )


def scales(content: Content, axis: str) -> list[Lines]:
    """Return the samples a second of work that differs only in one field of `Cell`, which is above
    0: a chart for each work with two points or more of a SUT.
    """
    charts: _Charts = {}
    for key, comparison, group in _works(content.conclusive, axis):
        value = getattr(group.cell, axis)
        is_faster = group.metric is not None and group.metric.higher_is_better
        if _serves(group.cell) or not value or not is_faster or not group.summary:
            continue
        machine = content.machine_labels.get(group.last.machine, "")
        work = compare.describe(group, (axis, *comparison.shared))
        lines = Lines(
            work=", ".join(filter(None, (work, group.last.result.mode, machine))),
            about=f"speed over {_AXES[axis]}",
            x=_AXES[axis],
            y="samples/s, more is better",
        )
        charts.setdefault(key, lines).add(group.sut, (float(value), group.summary.mean))
    return _of_two_points(charts)


def _best_batches(lines: Lines) -> str:
    """Return a sentence with the fastest batch of each SUT in samples a second, the fastest SUT
    first.
    """
    best = [(max(points, key=lambda point: point[1]), sut) for sut, points in lines.series.items()]
    best.sort(key=lambda each: -each[0][1])
    each = []
    for (batch, rate), sut in best:
        if rate:
            ms = short(1e3 * batch / rate)
            each.append(f"{sut} at {batch:.0f} ({short(rate)} samples/s, {ms} ms a batch)")
    tried = sorted({int(x) for points in lines.series.values() for x, _ in points})
    batches = ", ".join(map(str, tried))
    return f"{lines.work}: of the batches {batches} the fastest of each SUT: {', '.join(each)}"


def serving(content: Content) -> Section:
    """The rates in words, and a chart of throughput against latency."""
    served = [c for c in content.comparisons if _serves(c.groups[0].cell)]
    found = [c for c in served if c.groups[0].cell.rate is None and c.good]
    return Section(
        title="Throughput against latency",
        sentences=[_held(comparison) for comparison in found][:MOST_SENTENCES],
        pictures=_curves(served),
    )


def _held(comparison: Comparison) -> str:
    """Return a sentence with the rate that each SUT holds within the limits, the highest first."""
    each: list[str] = []
    means = {group.sut: group.summary for group in comparison.good if group.summary}
    for sut, rate in sorted(means.items(), key=lambda item: item[1].mean, reverse=True):
        text = f"{sut} {short(rate.mean)}"
        if not each:
            text = f"{sut} holds {short(rate.mean)} requests a second"
        if rate.low is not None and rate.high is not None:
            text += f" ({statistics.interval(rate.low, rate.high)})"
        each.append(text)
    first = comparison.groups[0]
    limits = []
    for name, words in _LIMITS.items():
        limit = getattr(first.cell, name)
        if limit is not None:
            limits.append(f"{limit:g} ms{words}")
    share = "90" if first.last.result.mode == "quick" else "99"
    work = compare.describe(first, (*_LIMITS, *comparison.shared))
    return f"{work}: within {' and '.join(limits)} for {share}% of the requests, {', '.join(each)}"


def _curves(comparisons: Iterable[Comparison]) -> list[Lines]:
    """Return latency over throughput: the same work at several rates of requests, with two points
    or more of a SUT. A point is the medians of a cell's runs.
    """
    charts: _Charts = {}
    for key, comparison, group in _works(comparisons, "rate"):
        points = [point for run in group.runs if (point := _point(run.result))]
        if not points:
            continue
        cell = group.cell
        limit = cell.max_ttft_ms if cell.stream else cell.max_latency_ms
        about = "latency over throughput"
        if limit is not None:
            about += f"; the dashed line is the limit of {limit:g} ms"
        percentile = "90th" if group.last.result.mode == "quick" else "99th"
        lines = Lines(
            work=f"{compare.describe(group, ('rate', *comparison.shared))}, over rate",
            about=about,
            x="requests answered a second",
            y=f"{'first token' if cell.stream else 'latency'}, ms ({percentile} percentile)",
            limit=limit,
        )
        place = (median(x for x, _ in points), median(y for _, y in points))
        charts.setdefault(key, lines).add(group.sut, place)
    return _of_two_points(charts)


def _point(result: Result) -> tuple[float, float] | None:
    """(rate of answers, judged percentile of the latency in milliseconds) of a run. None if it is
    not part of a curve. A run over the limits counts, too, because it shows where the curve crosses
    them.
    """
    if result.status != "ok" and result.cause not in ("loadgen", "overload"):
        return None
    name = "ttft" if result.cell.stream else "latency"
    percentile = "p90" if result.mode == "quick" else "p99"
    x = result.metrics.get("achieved_per_second")
    y = result.metrics.get(f"{name}_{percentile}_ms")
    return None if x is None or y is None else (x, y)


def _serves(cell: Cell) -> bool:
    return cell.scenario in SCENARIOS and SCENARIOS[cell.scenario].serves


def _works(
    comparisons: Iterable[Comparison], axis: str
) -> Iterator[tuple[tuple[Any, ...], Comparison, Group]]:
    """Yield (what the cells of a chart over `axis` share, comparison, group) of each group."""
    for comparison in comparisons:
        last = comparison.groups[0].last
        for group in comparison.groups:
            same = tuple(pair for pair in group.work if pair[0] != axis)
            yield (*same, last.result.mode, last.machine), comparison, group


def _of_two_points(charts: _Charts) -> list[Lines]:
    """Return the charts with two points or more of a SUT."""
    return [each for each in charts.values() if max(map(len, each.series.values())) > 1]
