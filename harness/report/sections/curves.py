"""Sections on how speed and latency depend on batch, lengths and the rate of requests, and on the
rate that each SUT holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any

from formats.cell import Cell, fields_with
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
_Drawn = tuple[Lines, tuple[float, float]]
"""A chart without points, and a point of it."""


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

    def drawn(comparison: Comparison, group: Group) -> _Drawn | None:
        value = getattr(group.cell, axis)
        is_faster = group.metric is not None and group.metric.higher_is_better
        if _serves(group.cell) or not value or not is_faster or not group.summary:
            return None
        machine = content.machine_labels.get(group.machine, "")
        work = compare.describe(group, (axis, *comparison.shared))
        lines = Lines(
            work=", ".join(filter(None, (work, group.mode, machine))),
            about=f"speed over {_AXES[axis]}",
            x=_AXES[axis],
            y="samples/s, more is better",
        )
        return lines, (float(value), group.summary.mean)

    return _charts(content.conclusive, axis, drawn)


def _best_batches(lines: Lines) -> str:
    """Return a sentence with the fastest batch of each SUT in samples a second, the fastest SUT
    first.
    """
    best = []
    for sut, points in lines.series.items():
        batch, rate = max(points, key=lambda point: point[1])
        best.append((sut, batch, rate))
    texts = []
    for sut, batch, rate in sorted(best, key=lambda each: -each[2]):
        if rate:
            ms = short(1e3 * batch / rate)
            texts.append(f"{sut} at {batch:.0f} ({short(rate)} samples/s, {ms} ms a batch)")
    tried = sorted({int(x) for points in lines.series.values() for x, _ in points})
    batches = ", ".join(map(str, tried))
    return f"{lines.work}: of the batches {batches} the fastest of each SUT: {', '.join(texts)}"


def serving(content: Content) -> Section:
    """The rates in words, and a chart of throughput against latency."""
    served = [c for c in content.comparisons if _serves(c.cell)]
    found = [c for c in served if c.cell.rate is None and c.good]
    return Section(
        title="Throughput against latency",
        sentences=[_held(comparison) for comparison in found][:MOST_SENTENCES],
        pictures=_charts(served, "rate", _latency),
    )


def _held(comparison: Comparison) -> str:
    """Return a sentence with the rate that each SUT holds within the limits, the highest first."""
    texts: list[str] = []
    for group in comparison.good:
        rate = group.summary
        assert rate
        text = f"{group.sut} {short(rate.mean)}"
        if not texts:
            text = f"{group.sut} holds {short(rate.mean)} requests a second"
        if rate.low is not None and rate.high is not None:
            text += f" ({statistics.interval(rate.low, rate.high)})"
        texts.append(text)
    cell = comparison.cell
    limits = []
    for name, words in _LIMITS.items():
        limit = getattr(cell, name)
        if limit is not None:
            limits.append(f"{limit:g} ms{words}")
    share = "90" if comparison.groups[0].mode == "quick" else "99"
    work = compare.describe(comparison.groups[0], (*_LIMITS, *comparison.shared))
    within = f"within {' and '.join(limits)} for {share}% of the requests"
    return f"{work}: {within}, {', '.join(texts)}"


def _latency(comparison: Comparison, group: Group) -> _Drawn | None:
    """Return the latency over the throughput: the medians of a cell's runs, in a chart of the same
    work at several rates of requests. None if the cell is not part of a curve.
    """
    cell = group.cell
    percentile = "90" if group.mode == "quick" else "99"
    name = f"{'ttft' if cell.stream else 'latency'}_p{percentile}_ms"
    points = []
    for result in [run.result for run in group.runs]:
        x = result.metrics.get("achieved_per_second")
        y = result.metrics.get(name)
        # A run over the limits shows where the curve crosses them.
        is_part = result.status == "ok" or result.cause in ("loadgen", "overload")
        if is_part and x is not None and y is not None:
            points.append((x, y))
    if not points:
        return None
    limit = cell.max_ttft_ms if cell.stream else cell.max_latency_ms
    about = "latency over throughput"
    if limit is not None:
        about += f"; the dashed line is the limit of {limit:g} ms"
    lines = Lines(
        work=f"{compare.describe(group, ('rate', *comparison.shared))}, over rate",
        about=about,
        x="requests answered a second",
        y=f"{'first token' if cell.stream else 'latency'}, ms ({percentile}th percentile)",
        limit=limit,
    )
    return lines, (median(x for x, _ in points), median(y for _, y in points))


def _serves(cell: Cell) -> bool:
    return cell.scenario in SCENARIOS and SCENARIOS[cell.scenario].serves


def _charts(
    comparisons: Iterable[Comparison],
    axis: str,
    drawn: Callable[[Comparison, Group], _Drawn | None],
) -> list[Lines]:
    """Return a chart for each work that differs only in the field `axis` of `Cell`, with two points
    or more of a SUT.

    Args:
        drawn: draws a group of a comparison. None: it has no point.
    """
    charts: dict[tuple[Any, ...], Lines] = {}
    for comparison in comparisons:
        first = comparison.groups[0]
        for group in comparison.groups:
            found = drawn(comparison, group)
            if found:
                lines, point = found
                work = [pair for pair in group.work if pair[0] != axis]
                charts.setdefault((*work, first.mode, first.machine), lines).add(group.sut, point)
    return [each for each in charts.values() if max(map(len, each.series.values())) > 1]
