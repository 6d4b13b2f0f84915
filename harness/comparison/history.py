"""The runs of each cell over time → when it became slower or faster, and what changed then."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.comparison import compare, statistics
from harness.comparison.runs import Run
from harness.comparison.tables import Group

# A drift that is shown has a smaller p of Kendall's tau, and is larger over all runs.
_DRIFT_P, _DRIFT = 0.05, 0.03


@dataclass(frozen=True, kw_only=True)
class Change:
    """The change from one stretch of equal conditions to the next.

    Attributes:
        at: when the first run of the new stretch began.
        what: the differences, a sentence each, the most important first.
        verdict: one sentence on the speed.
        speed: the new stretch's speed over the old one's.
    """

    at: str
    what: tuple[str, ...]
    verdict: str
    speed: statistics.Ratio


@dataclass(frozen=True, kw_only=True)
class Trend:
    """The runs of one cell in one mode, in order of time.

    Attributes:
        sut: with its options; `work`: the cell in words, without the SUT.
        figures: of the runs that are ok, in `unit`; `started`: when each of them began.
        sentence: a summary.
        fails: whether the last runs are not ok.
    """

    sut: str
    work: str
    unit: str
    figures: tuple[float, ...]
    started: tuple[str, ...]
    sentence: str
    changes: tuple[Change, ...]
    fails: bool

    @property
    def is_steady(self) -> bool:
        """Whether it is still ok and no change of speed is shown."""
        return not self.fails and not any(change.speed.different for change in self.changes)


def trends(groups: Iterable[Group]) -> list[Trend]:
    """A trend for every cell that was measured at least twice with success. Cells that fail now, or
    whose speed changed, come first.
    """
    runs: dict[tuple[str, str], list[Run]] = {}
    for group in groups:
        for run in group.runs:
            runs.setdefault((run.result.cell.digest, run.result.mode), []).append(run)
    found = []
    for of_one in runs.values():
        if sum(bool(run.metric) for run in of_one) > 1:
            found.append(_trend(sorted(of_one, key=lambda run: run.order)))
    return sorted(found, key=lambda trend: trend.is_steady)


def _trend(runs: Sequence[Run]) -> Trend:
    good = [run for run in runs if run.metric]
    failed = [run for run in runs if run.order > good[-1].order]
    stretches: list[Group] = []
    for run in good:
        one = Group(runs=(run,))
        if stretches and not compare.differences(Group(runs=stretches[-1].runs[-1:]), one):
            stretches[-1] = Group(runs=(*stretches[-1].runs, run))
        else:
            stretches.append(one)
    changes = tuple(_change(a, b) for a, b in itertools.pairwise(stretches))
    sentence = _sentence(stretches, changes)
    if failed:
        are = "run is" if len(failed) == 1 else f"{len(failed)} runs are"
        since = f"{failed[0].started[:16]} ({failed[-1].obstacle})"
        sentence += f"; the last {are} not ok since {since}"
    first = stretches[0]
    return Trend(
        sut=first.sut,
        work=compare.describe(first, exact=True),
        unit=first.metric.unit if first.metric else "",
        figures=tuple(figure for group in stretches for figure in group.figures),
        started=tuple(run.started for run in good),
        sentence=sentence,
        changes=changes,
        fails=bool(failed),
    )


def _sentence(stretches: Sequence[Group], changes: Sequence[Change]) -> str:
    """The changes of speed that are shown, or that none is."""
    shown = [each for each in changes if each.speed.different]
    if shown:
        return "; ".join(f"{each.verdict} since {each.at[:16]} ({_why(each)})" for each in shown)
    runs = statistics.plural(sum(len(group.runs) for group in stretches), "run")
    if changes:
        count = statistics.plural(len(changes), "change")
        return f"{runs}, {count}; no difference of speed shown"
    only = stretches[0]
    figure = _drift(only.figures) or compare.figure(only)
    return f"{runs}, nothing changed: {figure}"


def _why(change: Change) -> str:
    """The first difference, and each release that changed."""
    first, *others = change.what
    return "; ".join([first, *(what for what in others if what.startswith("other version of"))])


def _drift(figures: Sequence[float]) -> str:
    """A sentence on how the figures change from run to run, although nothing else did. Empty if
    that is not shown, or for fewer than 5 figures.
    """
    n = len(figures)
    if n < 5:
        return ""
    from scipy import stats

    slope = stats.theilslopes(np.log(figures))[0]
    change = float(np.expm1(slope * (n - 1)))
    is_shown = stats.kendalltau(range(n), figures).pvalue < _DRIFT_P
    return f"the figures drift by {change:+.0%}" if is_shown and abs(change) > _DRIFT else ""


def _change(a: Group, b: Group) -> Change:
    ratio = statistics.compare(
        b.figures,
        a.figures,
        higher_is_better=a.metric is None or a.metric.higher_is_better,
        paired=False,
    )
    verdict = ratio.verdict("it", "before")
    if ratio.different:
        verdict = f"{'faster' if ratio.value > 1 else 'slower'}: {verdict}"
    what = tuple(compare.differences(a, b))
    return Change(at=b.runs[0].started, what=what, verdict=verdict, speed=ratio)
