"""SUTs that did the same work → a contest: each SUT's place in it, and the answer in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from harness.cell import Status, short
from harness.comparison import compare, statistics, tables
from harness.comparison.tables import Group
from harness.inputs import models
from sut.registry import SUTS, unsupported

_MOST_REASONS = 3


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A SUT's place in a contest.

    Attributes:
        figure: LoadGen's number, the median of the repeats, in the contest's unit; None: there is none.
        low, high: its 95 % interval.
        struck: the figure is of an invalid run and is shown struck out.
        best: no SUT is shown to be faster.
        relative: its speed over the leader's, at most about 1; None where one has no figure.
        reason: why there is no valid figure; empty where there is one.
        unranked: why the figure may not stand beside the others; empty where it may, or where that is said of all.
    """

    group: Group
    figure: float | None
    low: float | None = None
    high: float | None = None
    struck: bool = False
    best: bool = False
    relative: statistics.Ratio | None = None
    reason: str = ""
    unranked: str = ""


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The same work done by several SUTs, on one machine and in one mode.

    Attributes:
        groups: one a SUT, the last that was measured, with a figure or without.
        older: how many earlier measurements of the same cells, by other versions, other files of SUTs, or for another time, are left out.
        apart: what tells it from other contests of the same name, such as another machine; empty where there is none.
    """

    groups: tuple[Group, ...]
    older: int = 0
    apart: str = ""

    @classmethod
    def of(cls, groups: Sequence[Group], apart: str = "") -> Contest:
        """The contest of groups that did the same work: of each SUT the last that was measured."""
        latest: dict[str, Group] = {}
        for group in groups:
            other = latest.get(group.sut)
            if other is None or group.order > other.order:
                latest[group.sut] = group
        return cls(groups=tuple(latest.values()), older=len(groups) - len(latest), apart=apart)

    @cached_property
    def name(self) -> str:
        """The work in words."""
        return compare.describe(self.groups[0]) + (f", {self.apart}" if self.apart else "")

    @cached_property
    def good(self) -> list[Group]:
        """The groups that have figures, the fastest first."""
        with_figures = [g for g in self.groups if g.good]
        return sorted(with_figures, key=lambda g: (g.summary.mean if g.summary else 0.0) * (-1 if self.higher_is_better else 1))

    @cached_property
    def unit(self) -> str:
        """The unit of all its figures; empty where there is none."""
        return next((g.metric.unit for g in self.groups if g.metric), "")

    @cached_property
    def higher_is_better(self) -> bool:
        """The direction of its figures."""
        return next((g.metric.higher_is_better for g in self.groups if g.metric), True)

    @property
    def repeats(self) -> str:
        """`5 runs`, or `3 to 5 runs`; empty where there is no figure."""
        counts = sorted(len(g.good) for g in self.good)
        if not counts:
            return ""
        return ("" if counts[0] == counts[-1] else f"{counts[0]} to ") + statistics.plural(counts[-1], "run")

    @cached_property
    def field(self) -> list[Group]:
        """Those the answer is about, the fastest first: the ranked ones, or all where fewer than two are ranked.

        The mean of all runs orders them. But one that is shown to be faster than the first leads: pairs of repeats decide, and not single
        runs that the other had no partner for.
        """
        ranked = [g for g in self.good if not g.unranked]
        field = ranked if len(ranked) > 1 else self.good
        for rival in field[1:]:
            ratio = tables.ratio(rival, field[0])
            if ratio.different and ratio.value > 1:
                field = [rival, *(g for g in field if g is not rival)]
        return field

    @cached_property
    def unranked(self) -> str:
        """Why the figures the answer is about may not stand beside one another; empty where they may."""
        return next((g.unranked[0] for g in self.field if g.unranked), "")

    @cached_property
    def ratios(self) -> dict[str, statistics.Ratio]:
        """SUT → its speed over the leader's, of all but the leader."""
        return {g.sut: tables.ratio(g, self.field[0]) for g in self.good if g is not self.field[0]}

    @cached_property
    def entries(self) -> dict[str, Standing]:
        """SUT → its place."""
        return {g.sut: self._entry(g) for g in self.groups}

    @cached_property
    def finding(self) -> str:
        """Which SUT is fastest and by how much, whether the figures are ranked or not."""
        reasons = "; ".join(f"{g.sut}: {g.last.obstacle}" for g in [g for g in self.groups if not g.good][:_MOST_REASONS])
        if not self.good:
            return f"no SUT has a figure ({reasons})"
        leader = self.field[0]
        alone = f"{leader.sut} alone has a figure: {compare.figure(leader)}{f' ({reasons})' if reasons else ''}"
        return alone if len(self.field) == 1 else self._of_leader(leader, self.field[1])

    @cached_property
    def answer(self) -> str:
        """Which SUT is fastest and by how much, and what is not ranked, in one or two sentences."""
        outside = [f"{g.sut}, because {g.unranked[0]}" for g in self.good if g not in self.field]
        reason = self.unranked or "; ".join(outside)
        note = "; their LoRA trains different parameters (--lora matched trains the same)" if self.other_factors else ""
        return f"{self.finding}{note}" + (f". Not ranked: {reason}" if reason else "")

    @property
    def other_factors(self) -> bool:
        """True if these are trainings by LoRA in which each library trains other factors (`--lora own`)."""
        return compare.other_factors(g.cell for g in self.good)

    def _of_leader(self, leader: Group, second: Group) -> str:
        equals = [g.sut for g in self.field[1:] if self.ratios[g.sut].low is not None and not self.ratios[g.sut].different]
        ahead = tables.ratio(leader, second)
        if ahead.low is None:
            repeats = statistics.plural(min(ahead.repeats), "run")
            return f"{leader.sut} was fastest, {ahead.value:.3g} × {second.sut}; {repeats} of a cell cannot say how much of that is chance"
        if equals:
            behind = [g for g in self.field[1:] if self.ratios[g.sut].different]
            text = f"{leader.sut} leads; {listed(equals)} {'is' if len(equals) == 1 else 'are'} not shown to be slower"
            return text + (f", and {leader.sut} is {_by(tables.ratio(leader, behind[0]), behind[0].sut)}" if behind else "")
        last = next(g for g in reversed(self.field) if self.ratios.get(g.sut, ahead).low is not None)
        text = f"{leader.sut} is fastest: {_by(ahead, second.sut)}"
        return text + (f", and {_by(tables.ratio(leader, last), last.sut)}, the slowest" if last is not second else "")

    def _entry(self, group: Group) -> Standing:
        result = group.last.result
        if not group.good:
            metric = result.metric if result.status == Status.INVALID else None
            return Standing(group=group, figure=metric.value if metric else None, struck=metric is not None, reason=group.last.obstacle)
        s = group.summary
        assert s is not None
        ratio = self.ratios.get(group.sut)
        if ratio is None:  # the leader, which needs a rival to be the best
            best = any(r.low is not None for r in self.ratios.values())
        else:
            best = ratio.low is not None and not ratio.different and group in self.field
        best = best and not self.unranked
        unranked = "" if self.unranked else next(iter(group.unranked), "")
        return Standing(group=group, figure=s.median, low=s.low, high=s.high, best=best, relative=ratio, unranked=unranked)

    @cached_property
    def unlike(self) -> dict[str, list[str]]:
        """Sentence → the SUTs it is about. A sentence says what differed when these SUTs and the leader were measured."""
        found: dict[str, list[str]] = {}
        for other in (g for g in self.good if g is not self.field[0]):
            not_in_turns = [compare.NOT_IN_TURNS] if self.ratios[other.sut].method == "Welch t" else []
            for sentence in [*compare.conditions(self.field[0], other), *not_in_turns]:
                found.setdefault(sentence, []).append(other.sut)
        return found

    def obstacle(self, sut: str) -> str:
        """Why a SUT that has no place here cannot do this work; empty where nobody measured it, or it has a place."""
        cell = self.groups[0].cell
        return "" if sut in self.entries else _obstacle(sut, cell.model, cell.task, cell.precision, cell.device)

    @property
    def decided(self) -> bool:
        """Whether it has a best SUT."""
        return any(entry.best for entry in self.entries.values())


def range_of(low: float | None, high: float | None) -> str:
    """`612–640`; empty where there is no interval."""
    return "" if low is None or high is None else f"{short(low)}–{short(high)}"


@lru_cache
def _obstacle(sut: str, model: str, task: str, precision: str, device: str) -> str:
    if sut not in SUTS or model not in models.names():  # measured elsewhere, with a SUT or a model of its own
        return ""
    known = models.load(model)
    family = (models.load(model, task) if task in known.tasks else known).family
    return unsupported(sut, model=model, family=family, task=task, precision=precision, device=device) or ""


def _by(ratio: statistics.Ratio, other: str) -> str:
    """`1.47 × other (1.43–1.52)`."""
    return ratio.verdict("", other).strip().removeprefix("is ")


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
