"""The runs of each cell over time → when it became slower or faster, and what changed then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.comparison import compare, statistics, tables
from harness.comparison.collected import collected
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
    every = [run for group in groups for run in group.runs]
    cells = collected(((run.result.cell.digest, run.result.mode), run) for run in every)
    repeated = [runs for runs in cells.values() if sum(bool(run.metric) for run in runs) > 1]
    found = [_trend(sorted(runs, key=lambda run: run.order)) for runs in repeated]
    return sorted(found, key=lambda trend: trend.is_steady)


def _trend(runs: Sequence[Run]) -> Trend:
    good = [run for run in runs if run.metric]
    failed = [run for run in runs if run.order > good[-1].order]
    stretches = [Group(runs=(good[0],))]
    for before, run in pairwise(good):
        if compare.differences(before, run):
            stretches.append(Group(runs=(run,)))
        else:
            stretches[-1] = Group(runs=(*stretches[-1].runs, run))
    steps = [_step(a, b) for a, b in pairwise(stretches)]
    shown = [sentence for change, sentence in steps if change.speed.different]
    first = stretches[0]
    count = statistics.plural(len(good), "run")
    sentence = f"{count}, {statistics.plural(len(steps), 'change')}; no difference of speed shown"
    if shown:
        sentence = "; ".join(shown)
    elif not steps:
        sentence = f"{count}, nothing changed: {_drift(first.figures) or compare.figure(first)}"
    if failed:
        are = "run is" if len(failed) == 1 else f"{len(failed)} runs are"
        since = f"{failed[0].started[:16]} ({failed[-1].obstacle})"
        sentence += f"; the last {are} not ok since {since}"
    return Trend(
        sut=first.sut,
        work=compare.describe(first, exact=True),
        unit=first.metric.unit if first.metric else "",
        figures=tuple(figure for group in stretches for figure in group.figures),
        started=tuple(run.started for run in good),
        sentence=sentence,
        changes=tuple(change for change, _ in steps),
        fails=bool(failed),
    )


def _step(a: Group, b: Group) -> tuple[Change, str]:
    """(the change, a sentence on it with the first difference and each release that changed)."""
    speed = tables.ratio(b, a)
    verdict = speed.verdict("it", "before")
    if speed.different:
        verdict = f"{'faster' if speed.value > 1 else 'slower'}: {verdict}"
    at = b.runs[0].started
    what = tuple(compare.differences(a.last, b.last))
    releases = compare.releases(a.last, b.last)
    why = "; ".join(dict.fromkeys((*what[:1], *releases)))
    change = Change(at=at, what=what, verdict=verdict, speed=speed)
    return change, f"{verdict} since {at[:16]} ({why})"


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
