"""Sections on how speed and latency depend on batch, lengths and the rate of requests, and on the
rate that each SUT holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
Point = tuple[float, float]
"""Its x and its y."""
_LIMITS = {
    "max_latency_ms": "",
    "max_ttft_ms": " to the first token",
    "max_tpot_ms": " a later token",
}
"""Field of `Cell` with a limit → its name in words, after the milliseconds."""


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
    label = _AXES[axis]

    def point(group: Group) -> Point | None:
        value = getattr(group.cell, axis)
        is_faster = group.metric is not None and group.metric.higher_is_better
        if _serves(group.cell) or not value or not is_faster or not group.summary:
            return None
        return float(value), group.summary.mean

    def chart(comparison: Comparison, group: Group) -> Lines:
        machine = content.machine_labels.get(group.last.machine, "")
        work = compare.describe(group, (axis, *comparison.shared))
        return Lines(
            work=", ".join(filter(None, (work, group.last.result.mode, machine))),
            about=f"speed over {label}",
            x=label,
            y="samples/s, more is better",
        )

    return _charts(content.conclusive, lambda cell: axis, point, chart)


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
        pictures=curves(content),
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


def curves(content: Content) -> list[Lines]:
    """Return latency over throughput: the same work at several rates of requests, or in several
    batch sizes, with two points or more of a SUT. A point is the medians of a cell's runs.
    """

    def axis(cell: Cell) -> str:
        return "rate" if _serves(cell) else "batch_size"

    def point(group: Group) -> Point | None:
        every = [point for run in group.runs if (point := _point(run.result))]
        return (median(x for x, _ in every), median(y for _, y in every)) if every else None

    def chart(comparison: Comparison, group: Group) -> Lines:
        return _curve(group, (axis(group.cell), *comparison.shared))

    return _charts(content.comparisons, axis, point, chart)


def _curve(group: Group, without: Iterable[str]) -> Lines:
    """Return the curve of a group's work, without points."""
    cell = group.cell
    work = compare.describe(group, tuple(without))
    about = "latency over throughput"
    if not _serves(cell):
        x = "tokens/s" if "tokens_per_second" in group.last.result.metrics else "samples/s"
        return Lines(work=f"{work}, over batch", about=about, x=x, y="ms a batch")
    limit = cell.max_ttft_ms if cell.stream else cell.max_latency_ms
    if limit is not None:
        about += f"; the dashed line is the limit of {limit:g} ms"
    percentile = "90th" if group.last.result.mode == "quick" else "99th"
    return Lines(
        work=f"{work}, over rate",
        about=about,
        x="requests answered a second",
        y=f"{'first token' if cell.stream else 'latency'}, ms ({percentile} percentile)",
        limit=limit,
    )


def _point(result: Result) -> Point | None:
    """(throughput, latency in milliseconds) of a run. None if it is not part of a curve.

    In Server it is the rate of answers and the judged percentile. A run over the limits counts,
    too, because it shows where the curve crosses them. In Offline it is the rate and the time of a
    batch.
    """
    metrics = result.metrics
    if result.status != "ok" and result.cause not in ("loadgen", "overload"):
        return None
    if _serves(result.cell):
        name = "ttft" if result.cell.stream else "latency"
        percentile = "p90" if result.mode == "quick" else "p99"
        y = metrics.get(f"{name}_{percentile}_ms")
        x = metrics.get("achieved_per_second")
    elif result.cell.scenario == "Offline":
        y = metrics.get("ms_per_step")
        x = metrics.get("tokens_per_second") or metrics.get("samples_per_second")
    else:
        return None
    return None if x is None or y is None else (x, y)


def _serves(cell: Cell) -> bool:
    return cell.scenario in SCENARIOS and SCENARIOS[cell.scenario].serves


def _charts(
    comparisons: Iterable[Comparison],
    axis: Callable[[Cell], str],
    point: Callable[[Group], Point | None],
    chart: Callable[[Comparison, Group], Lines],
) -> list[Lines]:
    """Return a chart for each work with two points or more of a SUT.

    Args:
        axis: a cell → the field in which the cells of a chart differ.
        point: None: the group is in no chart.
        chart: return the chart of a work, without points.
    """
    known: dict[tuple[Any, ...], Lines] = {}
    for comparison in comparisons:
        last = comparison.groups[0].last
        for group in comparison.groups:
            place = point(group)
            if place is None:
                continue
            same = tuple(pair for pair in group.work if pair[0] != axis(group.cell))
            key = (*same, last.result.mode, last.machine)
            if key not in known:
                known[key] = chart(comparison, group)
            known[key].add(group.sut, place)
    return [each for each in known.values() if max(map(len, each.series.values())) > 1]
