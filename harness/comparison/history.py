"""The runs of each cell over time → when it became slower or faster, and what changed then."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.comparison import compare, statistics
from harness.comparison.runs import Run
from harness.comparison.tables import Group


@dataclass(frozen=True, kw_only=True)
class Change:
    """The change from one stretch of equal conditions to the next.

    Attributes:
        at: when the first run of the new stretch began.
        what: the differences, a sentence each.
        ratio: the new stretch's speed over the old one's.
    """

    at: str
    what: tuple[str, ...]
    ratio: statistics.Ratio

    @property
    def verdict(self) -> str:
        """One sentence on the speed."""
        verdict = self.ratio.verdict("it", "before")
        if not self.ratio.different:
            return verdict
        if self.ratio.value > 1:
            return f"faster: {verdict}"
        return f"slower: {verdict}"

    @property
    def sentence(self) -> str:
        """The speed, since when, and the most important difference."""
        time = self.at[:16]
        return f"{self.verdict} since {time} ({self.what[0]})"


@dataclass(frozen=True, kw_only=True)
class Trend:
    """The runs of one cell in one mode, in order of time.

    Attributes:
        stretches: groups of runs with equal conditions.
        failed: the runs after the last stretch, which are not ok.
    """

    stretches: tuple[Group, ...]
    failed: tuple[Run, ...] = ()

    @property
    def name(self) -> str:
        """The cell in words, without the SUT."""
        return compare.describe(self.stretches[0], exact=True)

    @property
    def sut(self) -> str:
        """The SUT with its options."""
        return self.stretches[0].sut

    @property
    def unit(self) -> str:
        """The unit of the figures."""
        metric = self.stretches[0].metric
        return metric.unit if metric else ""

    @cached_property
    def figures(self) -> list[float]:
        """The figures of all runs in the stretches."""
        return [figure for group in self.stretches for figure in group.figures]

    @cached_property
    def starts(self) -> list[int]:
        """The index in `figures` at which each stretch begins."""
        counts = [len(group.figures) for group in self.stretches]
        return list(itertools.accumulate(counts[:-1], initial=0))

    @cached_property
    def changes(self) -> list[Change]:
        """The changes between neighbouring stretches."""
        return [_change(a, b) for a, b in itertools.pairwise(self.stretches)]

    @cached_property
    def sentence(self) -> str:
        """A summary in one sentence."""
        if not self.failed:
            return self._of_figures
        count = len(self.failed)
        runs = "run is" if count == 1 else f"{count} runs are"
        failure = (
            f"the last {runs} not ok since {self.failed[0].started[:16]}"
            f" ({self.failed[-1].obstacle})"
        )
        return f"{self._of_figures}; {failure}"

    @property
    def _of_figures(self) -> str:
        shown = [change.sentence for change in self.changes if change.ratio.different]
        if shown:
            return "; ".join(shown)
        runs = statistics.plural(len(self.figures), "run")
        if self.changes:
            changes = statistics.plural(len(self.changes), "change")
            return f"{runs}, {changes}; no difference of speed shown"
        only = self.stretches[0]
        figure = statistics.drift(only.figures) or compare.figure(only)
        return f"{runs}, nothing changed: {figure}"


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
    return sorted(found, key=_is_steady)


def _is_steady(trend: Trend) -> bool:
    return not trend.failed and not any(change.ratio.different for change in trend.changes)


def _trend(runs: Sequence[Run]) -> Trend:
    good = [run for run in runs if run.metric]
    return Trend(
        stretches=tuple(_stretches(good)),
        failed=tuple(run for run in runs if run.order > good[-1].order),
    )


def _stretches(runs: Sequence[Run]) -> list[Group]:
    kept: list[list[Run]] = []
    for run in runs:
        if kept and not compare.differences(Group(runs=(kept[-1][-1],)), Group(runs=(run,))):
            kept[-1].append(run)
        else:
            kept.append([run])
    return [Group(runs=tuple(of_one)) for of_one in kept]


def _change(a: Group, b: Group) -> Change:
    metric = a.metric
    ratio = statistics.compare(
        b.figures,
        a.figures,
        higher_is_better=metric is None or metric.higher_is_better,
        paired=False,
    )
    return Change(at=b.runs[0].started, what=tuple(compare.differences(a, b)), ratio=ratio)
