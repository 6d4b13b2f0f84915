"""Which measurement of a sweep is next. It follows from the results that are there, so a sweep that was killed goes on where it was."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.cell import Result, Status
from harness.sweep.cells import Series
from harness.sweep.interval import half_width

Results = Mapping[tuple[int, int], Result]
"""(number of the series, repeat) → its result."""

_ONCE = (Status.OOM, Status.UNSUPPORTED, Status.ERROR, Status.SKIPPED)
"""After these a cell gets no further repeats: they would end alike."""


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """How often every cell is measured.

    Attributes:
        least: at least so often.
        most: at most so often; used with `until` alone.
        until: repeats are added until the half width of each ratio's interval is below this share; None: none are added.
    """

    least: int
    most: int
    until: float | None = None


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as the first of its contest: the mean over the repeats, and half its interval's width as a share of it."""

    value: float
    half_width: float


def next_step(series: Sequence[Series], results: Results, repeats: Repeats) -> tuple[Series, int] | None:
    """The measurement that is next: all cells once, then all once more, so that what drifts hits all alike. None: all are done."""
    remaining = steps(series, results, repeats)
    return remaining[0] if remaining else None


def steps(series: Sequence[Series], results: Results, repeats: Repeats) -> list[tuple[Series, int]]:
    """Everything that is left to measure, as far as is known now, in its order."""
    targets = {contest: _target(series, contest, results, repeats) for contest in {s.contest for s in series}}
    return [
        (each, repeat)
        for repeat in range(1, max(targets.values(), default=0) + 1)
        for each in series
        if repeat <= targets[each.contest] and not each.obstacle and not _ended(each, results) and (each.number, repeat) not in results
    ]


def _ended(series: Series, results: Results) -> bool:
    return any(number == series.number and result.status in _ONCE for (number, _), result in results.items())


def _target(series: Sequence[Series], contest: tuple[object, ...], results: Results, repeats: Repeats) -> int:
    """Repeats of a contest. All its series are repeated together, because their ratios are taken repeat by repeat."""
    rivals = [s for s in series if s.contest == contest and not s.obstacle and not _ended(s, results)]
    target = repeats.least
    while repeats.until is not None and target < repeats.most and all((s.number, target) in results for s in rivals):
        known = {key: result for key, result in results.items() if key[1] <= target}
        ratios = [ratio for s in rivals if (ratio := ratio_to_first(s, series, known))]
        if all(ratio.half_width < repeats.until for ratio in ratios):
            break
        target += 1
    return target


def ratio_to_first(one: Series, series: Sequence[Series], results: Results) -> Ratio | None:
    """How many times as fast as the first series of its contest with figures. None: it is that first one, or has no figure.

    Where a contest has one series, the figures of that one stand over their mean, which tells how sure it is.
    """
    rivals = [s for s in series if s.contest == one.contest and figures(s.number, results)]
    own = figures(one.number, results)
    if not own or (one is rivals[0] and len(rivals) > 1):
        return None
    mean = statistics.fmean(own.values())
    base = figures(rivals[0].number, results) if one is not rivals[0] else dict.fromkeys(own, mean)
    ratios = [own[repeat] / base[repeat] for repeat in own if repeat in base]
    return Ratio(statistics.fmean(ratios), half_width(ratios)) if ratios else Ratio(math.nan, math.inf)


def figures(number: int, results: Results) -> dict[int, float]:
    """Repeat → speed of a series, from its good results: the figure, or one over it where less is faster."""
    return {
        repeat: result.metric.value if result.metric.higher_is_better else 1 / result.metric.value
        for (of, repeat), result in sorted(results.items(), key=lambda item: item[0])
        if of == number and result.status is Status.OK and result.metric
    }
