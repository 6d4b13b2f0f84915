"""The next measurement of a sweep. It follows from the finished results, so a sweep that was killed
continues at the same place.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from formats.result import Result, Status
from harness.comparison import statistics
from harness.comparison.pooled import Pooled, Rounds
from harness.comparison.statistics import Ratio
from harness.sweep.cells import Series
from results.figure import compared

Results = Mapping[tuple[int, int], Result]
"""(number of the series, repeat) → its result."""

_FAR_BEHIND = 0.75
"""A SUT whose single figure is below this share of the leader's is not repeated in a decisive
sweep. Two runs of one cell may differ by 10 %.
"""
_ONCE = (Status.OOM, Status.UNSUPPORTED, Status.ERROR, Status.SKIPPED)
"""After these a cell gets no further repeats, because they would end in the same way."""


@dataclass(frozen=True, kw_only=True)
class RepeatPlan:
    """How often every cell is measured.

    Attributes:
        least: the number of repeats.
        most: the largest number of repeats of a decisive sweep, which adds some.
        seed: seed of the order of the cells in each round.
        as_listed: whether each round has the order of the list, and the control run last.
        decisive: whether only SUTs that may be the fastest of a comparison are repeated, until it
            is known which one is.
        later: numbers of the series that are last in a round with the order of the list.
    """

    least: int
    most: int
    seed: int = 0
    as_listed: bool = False
    decisive: bool = False
    later: frozenset[int] = frozenset()


def next_step(
    series: Sequence[Series], results: Results, repeats: RepeatPlan
) -> tuple[Series, int] | None:
    """The next measurement. All cells are measured once, then all again, so that a drift affects
    all of them, and each comparison of a decisive sweep gets its share of the time. None: all are
    done.

    Each round has another order. So an effect of one cell on the next, such as heat, does not
    affect the same cell in every round.
    """
    remaining = steps(series, results, repeats)
    return remaining[0] if remaining else None


def steps(
    series: Sequence[Series], results: Results, repeats: RepeatPlan
) -> list[tuple[Series, int]]:
    """All measurements that are left, as far as is known now, in order."""
    targets: dict[int, int] = {}
    for rivals in _comparisons(series, results):
        repeated = contenders(rivals, results) if repeats.decisive else rivals
        target = _target(rivals, repeated, results, repeats)
        if _alone(rivals[0], series, results):
            target = 1
        targets |= {each.number: 1 for each in rivals}
        targets |= {each.number: target for each in repeated}
    left = []
    for repeat in range(1, max(targets.values(), default=0) + 1):
        for each in _order(series, repeats, repeat):
            is_planned = repeat <= targets.get(each.number, 0)
            if is_planned and (each.number, repeat) not in results:
                left.append((each, repeat))
    return left


def _order(series: Sequence[Series], repeats: RepeatPlan, repeat: int) -> Iterator[Series]:
    """The cells of one round, rivals one after the other, in an order that the seed and the round
    decide.

    The control run is at the other end of its rivals, far from the cell that it repeats. So it
    shows the noise between cells that are far apart.
    """
    if repeats.as_listed:
        yield from sorted(series, key=lambda s: (s.control, s.number in repeats.later))
        return
    rivals: dict[tuple[object, ...], list[Series]] = {}
    for each in series:
        rivals.setdefault(each.rivals, []).append(each)
    for place, together in enumerate(rivals.values()):
        cells = [each for each in together if not each.control]
        random.Random(f"{repeats.seed} {repeat} {place}").shuffle(cells)
        for control in (each for each in together if each.control):
            original = next((n for n, each in enumerate(cells) if each.words == control.words), 0)
            cells.insert(0 if 2 * original >= len(cells) - 1 else len(cells), control)
        yield from cells


def _comparisons(series: Sequence[Series], results: Results) -> list[list[Series]]:
    """The series that can still be measured, grouped by comparison."""
    ended = _ended(results)
    rivals: dict[tuple[object, ...], list[Series]] = {}
    for each in series:
        if not each.obstacle and each.number not in ended:
            rivals.setdefault(each.comparison, []).append(each)
    return list(rivals.values())


def _ended(results: Results) -> set[int]:
    """The numbers of the series that get no further repeats."""
    return {number for (number, _), result in results.items() if result.status in _ONCE}


def _alone(one: Series, series: Sequence[Series], results: Results) -> bool:
    """Return whether all rivals of a series failed, so that nothing is left to compare. The tuned
    cells of the same work and its replicas are rivals, too.
    """
    ended = _ended(results)
    same = [s for s in series if s.rivals == one.rivals and not s.obstacle]
    left = [s for s in same if s.number not in ended]
    return len({s.words for s in same}) > 1 and len({s.words for s in left}) == 1


def contenders(rivals: Sequence[Series], results: Results) -> list[Series]:
    """The series of a comparison that may be the fastest, and at least the two fastest ones. Those
    without a figure are left out.
    """
    ordered = _fastest_first(rivals, results)
    from_first = ratios(ordered, results)
    slow = set()
    for number, ratio in from_first.items():
        is_slower = ratio.different and ratio.value < 1
        if ratio.low is None:
            is_slower = ratio.value < _FAR_BEHIND
        if is_slower:
            slow.add(number)
    return [s for place, s in enumerate(ordered) if place < 2 or s.number not in slow]


def _fastest_first(rivals: Sequence[Series], results: Results) -> list[Series]:
    """The series with figures, by the geometric mean of their speeds."""
    speeds = {s.number: list(figures(s.number, results).values()) for s in rivals}
    means = {n: statistics.geometric_mean(own) for n, own in speeds.items() if own}
    measured = [s for s in rivals if s.number in means]
    return sorted(measured, key=lambda s: -means[s.number])


def _target(
    rivals: Sequence[Series], repeated: Sequence[Series], results: Results, repeats: RepeatPlan
) -> int:
    """The number of repeats of the series of a comparison that are repeated. All get the same
    number, because their ratios are computed repeat by repeat.
    """
    target = repeats.least
    if not repeats.decisive or not repeated:
        return target
    while target < repeats.most and all((s.number, target) in results for s in repeated):
        known = {key: result for key, result in results.items() if key[1] <= target}
        if _is_decided(rivals, repeated, known):
            break
        target += 1
    return target


def _is_decided(rivals: Sequence[Series], repeated: Sequence[Series], results: Results) -> bool:
    """Return whether each repeated series is shown to differ from the fastest, or to be equal."""
    from_first = ratios(_fastest_first(rivals, results), results)
    known = [from_first[s.number] for s in repeated if s.number in from_first]
    return not any(map(statistics.more_repeats, known))


def ratios(rivals: Sequence[Series], results: Results) -> dict[int, Ratio]:
    """Number of a series → its speed over that of the first series with figures. Only series that
    share a repeat with the first are included.
    """
    ordered = sorted(rivals, key=lambda s: s.control)  # nothing is compared with a control run
    speeds = {s.number: figures(s.number, results) for s in ordered}
    known = tuple((number, tuple(of_one.items())) for number, of_one in speeds.items() if of_one)
    if not known:
        return {}
    return _ratios(known, len({s.words for s in rivals}))


@lru_cache(maxsize=4096)
def _ratios(
    speeds: tuple[tuple[int, tuple[tuple[Hashable, float], ...]], ...], compared: int
) -> dict[int, Ratio]:
    """`ratios` for (number, (repeat, speed) …) of each series. Results are cached, because a sweep
    needs them again after each measurement.
    """
    known = {str(number): dict(of_one) for number, of_one in speeds}
    pooled = Pooled(series=known, compared=compared)
    first, *others = known
    found = {}
    for name in others:
        common = [repeat for repeat in known[name] if repeat in known[first]]
        logs = [math.log(known[name][repeat] / known[first][repeat]) for repeat in common]
        if logs:
            few = Ratio(value=math.exp(sum(logs) / len(logs)), repeats=(len(logs), len(logs)))
            found[int(name)] = pooled.ratio(name, first) or few
    return found


def figures(number: int, results: Results) -> Rounds:
    """Repeat → speed of a series, from its good results. The speed is the figure by which it is
    compared, or its inverse if less is faster.
    """
    speeds: dict[Hashable, float] = {}
    for (of, repeat), result in sorted(results.items(), key=lambda item: item[0]):
        if of != number or result.status is not Status.OK:
            continue
        metric = compared(result)
        if metric:
            speeds[repeat] = metric.value if metric.higher_is_better else 1 / metric.value
    return speeds
