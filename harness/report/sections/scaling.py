"""A section on speed over batch size and lengths, for work that differs in only one of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from formats.cell import fields_with
from harness.comparison import compare
from harness.report.comparison import Comparison
from harness.report.content import MOST_SENTENCES, Content
from harness.report.section import Picture, Pictures, Section
from results.figure import short
from scenarios.table import SCENARIOS

_AXES = fields_with("axis")
"""Field of `Cell` that is an axis → its name in words."""
_MOST_OF_AN_AXIS = 4
"""The most pictures of one axis."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The same work with several values of one field.

    Attributes:
        axis: a field of _AXES.
        work: the work in words, without that field.
        points: SUT → (value of the field, samples a second, the mean of the repeats), in the
            order of the comparisons.
    """

    axis: str
    work: str
    points: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def section(content: Content) -> Section:
    """A chart of each scale, and a sentence on the best batch of each SUT."""
    found = scales(content)
    batches = [scale for scale in found if scale.axis == "batch_size"]

    def pictures() -> Pictures:
        shown = []
        for axis in _AXES:
            of_axis = [scale for scale in found if scale.axis == axis]
            shown += [_picture(scale) for scale in of_axis[:_MOST_OF_AN_AXIS]]
        return Pictures(shown=shown, more=len(found) - len(shown))

    return Section(
        title="Speed over batch and length",
        sentences=[_best_batches(scale) for scale in batches][:MOST_SENTENCES],
        pictures=pictures,
    )


def scales(content: Content) -> list[Scale]:
    """Return every scale with two points or more of a SUT, axis by axis."""
    found = []
    for axis in _AXES:
        known: dict[tuple[Any, ...], Scale] = {}
        for comparison in content.conclusive:
            value = getattr(comparison.groups[0].cell, axis)
            served = SCENARIOS[comparison.groups[0].cell.scenario].serves
            if served or not comparison.higher_is_better or not value:
                continue
            first = comparison.groups[0]
            same = [pair for pair in first.work if pair[0] != axis]
            key = (*same, first.last.result.mode, first.last.machine)
            work = _work(comparison, axis, content.machine_labels.get(first.last.machine, ""))
            for group in comparison.good:
                scale = known.setdefault(key, Scale(axis=axis, work=work))
                mean = group.summary.mean if group.summary else 0.0
                scale.points.setdefault(group.sut, []).append((float(value), mean))
        for scale in known.values():
            if any(len(points) > 1 for points in scale.points.values()):
                found.append(scale)
    return found


def _work(comparison: Comparison, axis: str, machine: str) -> str:
    first = comparison.groups[0]
    parts = [compare.describe(first, (axis, *comparison.shared)), first.last.result.mode, machine]
    return ", ".join(filter(None, parts))


def _picture(scale: Scale) -> Picture:
    from harness.report import figures

    label = _AXES[scale.axis]
    caption = f"{scale.work}: speed over {label}"
    y = "samples/s, more is better"
    draw = partial(figures.lines, scale.points, x=label, y=y, title=caption)
    return Picture(caption=caption, draw=draw)


def _best_batches(scale: Scale) -> str:
    """Return a sentence with the fastest batch of each SUT in samples a second, the fastest SUT
    first.
    """
    best = {}
    for sut, points in scale.points.items():
        best[sut] = max(points, key=lambda point: point[1])
    each = []
    for sut, (batch, rate) in sorted(best.items(), key=lambda item: -item[1][1]):
        if rate:
            ms = short(1e3 * batch / rate)
            each.append(f"{sut} at {batch:.0f} ({short(rate)} samples/s, {ms} ms a batch)")
    tried = sorted({int(x) for points in scale.points.values() for x, _ in points})
    batches = ", ".join(map(str, tried))
    return f"{scale.work}: of the batches {batches} the fastest of each SUT: {', '.join(each)}"
