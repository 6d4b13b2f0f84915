"""Speed over batch and over lengths: the same work with several values of one of them. The page draws it, a sentence sums it up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from formats.cell import fields_with
from harness.comparison import compare
from harness.figure import short
from harness.report.contest import Contest

AXES = fields_with("axis")
"""The fields of `Cell` that are an axis, in words."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The same work with several values of one field.

    Attributes:
        axis: of AXES.
        work: in words, without that field.
        points: SUT → (value of the field, samples a second, the median of the repeats), in the order of the contests.
    """

    axis: str
    work: str
    points: dict[str, list[tuple[float, float]]]


def scales(contests: Iterable[Contest], machines: Mapping[str, str]) -> list[Scale]:
    """Every scale with two points or more of a SUT, axis by axis. `machines`: the name of each machine, if there are several."""
    every, found = list(contests), []
    for axis in AXES:
        known: dict[tuple[Any, ...], Scale] = {}
        for contest in every:
            first = contest.groups[0]
            x, mode, machine = getattr(first.cell, axis), first.last.result.mode, first.last.machine
            key = (*(pair for pair in first.work if pair[0] != axis), mode, machine)
            parts = (compare.describe(first, (axis, *contest.shared)), mode, machines.get(machine, ""))
            for group in contest.good if contest.higher_is_better and x else ():
                scale = known.setdefault(key, Scale(axis=axis, work=", ".join(filter(None, parts)), points={}))
                scale.points.setdefault(group.sut, []).append((float(x), group.summary.median if group.summary else 0.0))
        found += [scale for scale in known.values() if any(len(points) > 1 for points in scale.points.values())]
    return found


def sentences(found: Iterable[Scale]) -> list[str]:
    """A sentence for each scale over batches: the batch at which each SUT makes most samples a second, the fastest SUT first."""
    return [_best_batches(scale) for scale in found if scale.axis == "batch_size"]


def _best_batches(scale: Scale) -> str:
    best = {sut: max(points, key=lambda point: point[1]) for sut, points in scale.points.items()}
    ranked = sorted(best.items(), key=lambda item: -item[1][1])
    each = [f"{sut} at {x:.0f} ({short(rate)} samples/s, {short(1e3 * x / rate)} ms a batch)" for sut, (x, rate) in ranked if rate]
    tried = sorted({int(x) for points in scale.points.values() for x, _ in points})
    return f"{scale.work}: of the batches {', '.join(map(str, tried))} the fastest of each SUT, by medians: {', '.join(each)}"
