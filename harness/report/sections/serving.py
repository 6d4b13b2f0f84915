"""A section on requests over time: which rate each SUT holds, and throughput against latency."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

from formats.cell import Cell
from formats.result import Result
from harness.comparison import compare, statistics, tables
from harness.comparison.tables import Group
from harness.report.comparison import Comparison, listed
from harness.report.content import MOST_SENTENCES, Content
from harness.report.section import Picture, Pictures, Section, Table, grouped
from results.figure import short
from scenarios.table import SCENARIOS

_TOKENS = {
    f"{token}, {words}, ms": f"{name}_{percentile}_ms"
    for token, name in (("first", "ttft"), ("later", "tpot"))
    for words, percentile in (("median", "p50"), ("90th", "p90"), ("99th", "p99"))
}
"""Heading → column of `harness.comparison.tables`."""
_MOST_CURVES, _MOST_QUEUES = 4, 4
_LIMITS = ("max_latency_ms", "max_ttft_ms", "max_tpot_ms")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The same work at several rates of requests, or in several batch sizes.

    Attributes:
        work: the work in words.
        x, y: what throughput and latency are.
        points: SUT → (throughput, latency in milliseconds), the medians of a cell's runs.
        limit_ms: the limit of that latency; None: there is none.
    """

    work: str
    x: str
    y: str
    points: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    limit_ms: float | None = None


def token_latencies(content: Content) -> Section:
    """A table of the times of tokens, for all cells with streamed answers."""
    rows = []
    unseen: dict[str, None] = {}
    for comparison in content.comparisons:
        for group in comparison.good:
            values = tables.row(group)
            if not values["ttft_p50_ms"]:
                continue
            texts = [short(values[column]) for column in _TOKENS.values()]
            rows.append((comparison.name, [group.sut, *texts]))
            measured = group.last.result.measured
            if not values["tpot_p50_ms"] and measured["tokens"] > measured["samples"]:
                unseen[group.sut] = None
    note = ""
    if unseen:
        note = (
            f"The time of later tokens cannot be seen for {listed(list(unseen))}: too many of the"
            " answers came in one part."
        )
    table = Table(
        columns=("SUT", *_TOKENS),
        numbers=range(1, len(_TOKENS) + 1),
        groups=grouped(rows),
        note=note,
    )
    return Section(
        title="Token latencies",
        note=(
            "Medians of the runs. First: the time from a request to its first token, in Offline"
            " from the beginning of its batch. Later: the time from the first token to the last"
            " one, divided by the number of later tokens. These are MLPerf's definitions."
        ),
        tables=[table],
    )


def section(content: Content) -> Section:
    """The rates in words, a chart of each curve, and the queues at the rates that were found."""
    served = [c for c in content.comparisons if _serves(c.groups[0].cell)]
    found = [c for c in served if c.groups[0].cell.rate is None and c.good]

    def pictures() -> Pictures:
        drawn = curves(content)
        queues = [picture for comparison in found for picture in _queue(comparison)]
        shown = [_picture(curve) for curve in drawn[:_MOST_CURVES]]
        more = max(0, len(drawn) - _MOST_CURVES) + max(0, len(queues) - _MOST_QUEUES)
        return Pictures(shown=[*shown, *queues[:_MOST_QUEUES]], more=more)

    return Section(
        title="Throughput against latency",
        sentences=[_held(comparison) for comparison in found][:MOST_SENTENCES],
        pictures=pictures,
    )


def _serves(cell: Cell) -> bool:
    return cell.scenario in SCENARIOS and SCENARIOS[cell.scenario].serves


def _held(comparison: Comparison) -> str:
    """Return a sentence with the rate that each SUT holds within the limits, the highest first."""
    each: list[str] = []
    for group in sorted(comparison.good, key=_mean, reverse=True):
        assert group.summary is not None
        holds = "" if each else " holds"
        per = "" if each else " requests a second"
        text = f"{group.sut}{holds} {short(group.summary.mean)}{per}"
        if group.summary.low is not None and group.summary.high is not None:
            text += f" ({statistics.interval(group.summary.low, group.summary.high)})"
        each.append(text)
    cell = comparison.groups[0].cell
    named = {
        "": cell.max_latency_ms,
        " to the first token": cell.max_ttft_ms,
        " a later token": cell.max_tpot_ms,
    }
    limits = [f"{limit:g} ms{words}" for words, limit in named.items() if limit is not None]
    share = "90" if comparison.groups[0].last.result.mode == "quick" else "99"
    work = compare.describe(comparison.groups[0], (*_LIMITS, *comparison.shared))
    return f"{work}: within {' and '.join(limits)} for {share}% of the requests, {', '.join(each)}"


def _mean(group: Group) -> float:
    return group.summary.mean if group.summary else 0.0


def curves(content: Content) -> list[Curve]:
    """Return every curve that has two points or more of a SUT."""
    known: dict[tuple[Any, ...], Curve] = {}
    for comparison in content.comparisons:
        for group in comparison.groups:
            every = [point for run in group.runs if (point := _point(run.result))]
            if not every:
                continue
            key = _key(group, comparison)
            curve = known.get(key) or known.setdefault(key, _curve(group, comparison))
            x, y = (median(values) for values in zip(*every, strict=True))
            curve.points.setdefault(group.sut, []).append((x, y))
    several = []
    for curve in known.values():
        for points in curve.points.values():
            points.sort()
        if max(map(len, curve.points.values())) > 1:
            several.append(curve)
    return several


def _axis(cell: Cell) -> str:
    return "rate" if _serves(cell) else "batch_size"


def _key(group: Group, comparison: Comparison) -> tuple[Any, ...]:
    axis = _axis(group.cell)
    same = tuple(pair for pair in group.work if pair[0] != axis)
    last = comparison.groups[0].last
    return (*same, last.result.mode, last.machine)


def _point(result: Result) -> tuple[float, float] | None:
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


def _curve(group: Group, comparison: Comparison) -> Curve:
    cell = group.cell
    axis = _axis(cell)
    words = compare.describe(group, (axis, *comparison.shared))
    if not _serves(cell):
        x = "tokens/s" if "tokens_per_second" in group.last.result.metrics else "samples/s"
        return Curve(work=f"{words}, over batch", x=x, y="ms a batch")
    percentile = "90th" if group.last.result.mode == "quick" else "99th"
    of = "first token" if cell.stream else "latency"
    return Curve(
        work=f"{words}, over rate",
        x="requests answered a second",
        y=f"{of}, ms ({percentile} percentile)",
        limit_ms=cell.max_ttft_ms if cell.stream else cell.max_latency_ms,
    )


def _picture(curve: Curve) -> Picture:
    from harness.report import figures

    caption = f"{curve.work}: latency over throughput"
    if curve.limit_ms is not None:
        caption += f"; the dashed line is the limit of {curve.limit_ms:g} ms"
    draw = partial(
        figures.lines, curve.points, x=curve.x, y=curve.y, title=caption, limit=curve.limit_ms
    )
    return Picture(caption=caption, draw=draw)


def _queue(comparison: Comparison) -> Iterable[Picture]:
    """Draw how many requests waited over the last run of each SUT at its rate."""
    from harness.report import figures

    waiting = {}
    for group in comparison.good:
        served = group.last.result.serving
        if served:
            queue = served.queue
            waiting[group.sut] = list(zip(queue.seconds, queue.waiting, strict=True))
    if waiting:
        caption = f"{comparison.name}: requests in the queue over the last run of each"
        x, y = "seconds", "requests that wait"
        draw = partial(figures.lines, waiting, x=x, y=y, title=caption, marked=False)
        yield Picture(caption=caption, draw=draw)
