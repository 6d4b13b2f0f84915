"""SUTs that did the same work → a comparison, with each SUT's place. `answer` has it in words."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, product, starmap

from formats.cell import Cell
from formats.result import Status
from harness.comparison import compare, statistics, tables
from harness.comparison.collected import collected
from harness.comparison.pooled import Pooled
from harness.comparison.tables import Group
from harness.inputs import models
from results.summary import matrix_products
from sut import variables
from sut.registry import SUTS, unsupported

_FAR = 0.03  # A control run that differs by less does not make a comparison inconclusive.


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A SUT's place in a comparison.

    Attributes:
        figure: the compared number in the unit of the comparison; None if there is none. The
            leader's is the mean of its runs. The others' follow from it and `relative`, so that
            figures and ratios have one order.
        low, high: the interval of `relative` in that unit; None if the comparison is inconclusive.
        struck: whether the figure is of an invalid run, and is shown struck out.
        best: whether it is in the leading group, because no SUT is shown to be faster.
        behind: the SUT that is shown to be faster, if `relative` does not show it; else empty.
        relative: its speed over the leader's, at most about 1; None if one of them has no figure.
        reason: why there is no valid figure; empty if there is one.
        unranked: why the figure may not be compared with the others; empty if it may, or if the
            reason is the same for all.
    """

    group: Group
    figure: float | None
    low: float | None = None
    high: float | None = None
    struck: bool = False
    best: bool = False
    behind: str = ""
    relative: statistics.Ratio | None = None
    reason: str = ""
    unranked: str = ""


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """Why the runs of a comparison do not show which SUT is faster.

    Attributes:
        why: the reason in words.
        of_machine: whether the machine was not quiet, so that more of such runs do not help.
        remedy: what to do; empty: to measure more often, or again.
    """

    why: str
    of_machine: bool = True
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison: the same work done by several SUTs, on one machine and in one mode.

    Attributes:
        groups: the last measured group of each SUT, with a figure or without.
        older: how many earlier measurements of the same cells are left out. They used other
            versions, other files of SUTs, or another duration.
        apart: the difference to other comparisons of the same name, such as another machine; empty
            if there is none.
        controls: the control runs of sweeps, which measured a cell again.
        shared: fields of `Cell` that are equal on the whole page, and are written at its top.
    """

    groups: Sequence[Group]
    older: int
    apart: str
    controls: Sequence[Group]
    shared: Collection[str]

    @cached_property
    def parts(self) -> list[str]:
        """The work in words, in parts."""
        parts = compare.parts(self.groups[0], self.shared)
        return [*parts, self.apart] if self.apart else parts

    @cached_property
    def name(self) -> str:
        """The work in words."""
        return ", ".join(self.parts)

    @cached_property
    def full_name(self) -> str:
        """The work in words, with digests, and with the settings that a page writes only once."""
        work = compare.describe(self.groups[0], exact=True)
        return f"{work}, {self.apart}" if self.apart else work

    @property
    def cell(self) -> Cell:
        """The cell of the first group, which gives the comparison its name."""
        return self.groups[0].cell

    @cached_property
    def good(self) -> list[Group]:
        """The groups that have figures, the fastest first.

        A figure that is another statistic than most groups' figures is not compared with them.
        """
        kinds = [g.kind for g in self.groups if g.good]
        usual = max(kinds, key=lambda kind: ("median" in kind, kinds.count(kind)), default=())
        return sorted(
            (g for g in self.groups if g.good and g.kind == usual),
            key=lambda g: statistics.geometric_mean(g.figures),
            reverse=self.higher_is_better,
        )

    @cached_property
    def unit(self) -> str:
        """The unit of all its figures; empty if there is none."""
        return next((g.metric.unit for g in self.good or self.groups if g.metric), "")

    @cached_property
    def higher_is_better(self) -> bool:
        """Whether a higher figure is better."""
        return next((g.metric.higher_is_better for g in self.groups if g.metric), True)

    @property
    def direction(self) -> str:
        """`samples/s, more is better`; empty if there is no figure."""
        better = "more" if self.higher_is_better else "less"
        return f"{self.unit}, {better} is better" if self.unit else ""

    @cached_property
    def controlled(self) -> list[tuple[Group, Group]]:
        """(a SUT's group, its control run) for each of these cells that a sweep measured again in
        the same way.
        """
        found = []
        for group, control in product(self.good, self.controls):
            is_same = group.cell.digest == control.cell.digest and control.good
            if is_same and not compare.differences(group.last, control.last):
                found.append((group, control))
        return found

    @cached_property
    def pooled(self) -> Pooled:
        """The speeds round by round, with the noise that all SUTs share."""
        return tables.pool(self.good, [control for _, control in self.controlled])

    def ratio(self, a: Group, b: Group) -> statistics.Ratio:
        """Return the speed of A over that of B, from the common noise of all SUTs.

        Only the runs of these two are used if they share too few rounds.
        """
        if (a, b) not in self._ratios:
            pooled = self.pooled.ratio(a, b)
            self._ratios[a, b] = pooled or tables.ratio(a, b, compared=len(self.good))
        return self._ratios[a, b]

    @cached_property
    def _ratios(self) -> dict[tuple[Group, Group], statistics.Ratio]:
        """The ratios that were computed."""
        return {}

    @cached_property
    def control_ratios(self) -> list[tuple[Group, statistics.Ratio]]:
        """(cell, speed of its control run over its own) for each cell with a control run.

        Both measured the same cell, so the ratio shows only noise.
        """
        return [
            (group, self.pooled.ratio(control, group) or tables.ratio(control, group))
            for group, control in self.controlled
        ]

    @property
    def repeats(self) -> str:
        """`5 runs`, or `3 to 5 runs`; empty if there is no figure."""
        counts = [len(g.good) for g in self.good]
        if not counts:
            return ""
        most = statistics.plural(max(counts), "run")
        return most if min(counts) == max(counts) else f"{min(counts)} to {most}"

    @cached_property
    def field(self) -> list[Group]:
        """The groups that the answer is about, the fastest first.

        They are the ranked ones, or all if fewer than two are ranked. They are ordered by their
        ratios to the first one. Runs without a partner in another SUT's rounds do not count.
        """
        ranked = [g for g in self.good if not g.unranked]
        field = ranked if len(ranked) > 1 else self.good
        if not field:
            return []
        leader = field[0]
        for rival in field[1:]:
            if self.ratio(rival, leader).value > 1:
                leader = rival
        others = [g for g in field if g is not leader]
        return [leader, *sorted(others, key=lambda g: -self.ratio(g, leader).value)]

    @cached_property
    def ordered(self) -> list[Group]:
        """The groups with figures: the field, then the others."""
        return [*self.field, *(g for g in self.good if g not in self.field)]

    @cached_property
    def unranked(self) -> str:
        """Why the figures of the answer may not be compared; empty if they may."""
        return next((g.unranked[0] for g in self.field if g.unranked), "")

    @cached_property
    def ratios(self) -> dict[Group, statistics.Ratio]:
        """Group → its speed over the leader's, for all groups with figures except the leader."""
        return {g: self.ratio(g, self.field[0]) for g in self.good if g is not self.field[0]}

    @cached_property
    def faster(self) -> dict[Group, Group]:
        """Group of the field → the first one that is shown to be faster, if there is one."""
        found: dict[Group, Group] = {}
        for one, other in combinations(self.field, 2):
            ratio = self.ratio(one, other)
            if ratio.different:
                slow, fast = (other, one) if ratio.value > 1 else (one, other)
                found.setdefault(slow, fast)
        return found

    @cached_property
    def leading(self) -> list[Group]:
        """The leading group, the best figure first: no SUT is shown to be faster than these,
        although there are enough runs.
        """
        leader, *rivals = self.field
        return [leader, *(g for g in rivals if self.ratios[g].low and g not in self.faster)]

    @cached_property
    def apart_by(self) -> float:
        """How far apart the SUTs of the leading group may be, as a share: 0.09 is 9 %.

        It is the largest end of the intervals of all its pairs. They hold at once, so in 95 of 100
        comparisons no two of these SUTs differ by more.
        """
        pairs = combinations(self.leading, 2)
        return max((self.ratio(a, b).farthest - 1 for a, b in pairs), default=0.0)

    @property
    def more_runs(self) -> int:
        """About how many more runs of each SUT decide which one is faster, or that they are equal.
        0: it is decided.
        """
        field = self.leading if len(self.leading) > 1 else self.field
        ratios = starmap(self.ratio, combinations(field, 2))
        return max(map(statistics.more_repeats, ratios), default=0)

    @cached_property
    def threads(self) -> str:
        """`native-jax 2, native-torch-eager 1`: the threads with which the SUTs multiplied
        matrices, by their evidence. Empty if no two numbers differ.

        SUTs that report none are left out, and so are those on an accelerator.
        """
        threads = {g.sut: matrix_products(g.last.result).get("threads") for g in self.field}
        known = {sut: count for sut, count in threads.items() if type(count) is int}
        if len({*known.values()}) < 2:
            return ""
        return ", ".join(f"{sut} {count}" for sut, count in known.items())

    @cached_property
    def doubt(self) -> Doubt | None:
        """The reason why these runs do not show which SUT is faster. None if they may show it."""
        if len(self.field) < 2:
            return None
        # Not all frameworks read such a variable of the user.
        named = [name for g in self.field for name in variables.of_threads(g.cell.variables)]
        if self.threads and named:
            why = (
                f"not all SUTs obey {', '.join(dict.fromkeys(named))}, and they multiplied matrices"
                f" with other numbers of threads ({self.threads})"
            )
            return Doubt(why=why, of_machine=False, remedy="unset it, or give --threads N instead")
        disturbed = [f"with {g.sut}, {g.disturbed}" for g in self.field if g.disturbed]
        noise = mostly_disturbed([self]) or next(iter(disturbed), "") or self._far_control
        if noise:
            return Doubt(why=noise)
        return Doubt(why=self._uncertainty, of_machine=False) if self._uncertainty else None

    @cached_property
    def inconclusive(self) -> str:
        """The reason why these runs do not show which SUT is faster. Empty if they may show it."""
        return self.doubt.why if self.doubt else ""

    @cached_property
    def _far_control(self) -> str:
        """The distance of a control run from its cell. Empty if none is far away. A wide interval
        counts only if the leader is not farther ahead than that.
        """
        lead = min((1 / (ratio.high or math.inf) for ratio in self.ratios.values()), default=0.0)
        for group, ratio in self.control_ratios:
            is_far = ratio.different and abs(ratio.value - 1) > _FAR
            is_wide = ratio.unsure and ratio.farthest > lead
            if is_far or is_wide:
                return (
                    f"{group.sut}, measured twice a round, was {ratio.value:.3g} × as fast as"
                    f" itself ({ratio.between})"
                )
        return ""

    @cached_property
    def _uncertainty(self) -> str:
        """The narrowest interval, if all are wider than a factor of two and show no difference;
        otherwise empty.
        """
        ratios = [self.ratios[g] for g in self.field[1:]]
        known = [ratio for ratio in ratios if ratio.low]
        if not known or not all(r.unsure and not r.different for r in known):
            return ""
        narrowest = min(known, key=lambda r: r.spread)
        return f"every ratio is uncertain by more than a factor of two ({narrowest.between})"

    @cached_property
    def entries(self) -> dict[str, Standing]:
        """SUT → its place in the comparison."""
        return {g.sut: self._entry(g) for g in self.groups}

    @cached_property
    def other_factors(self) -> bool:
        """True if each library trains other factors in these trainings by LoRA."""
        return compare.other_factors(g.cell for g in self.good)

    def _entry(self, group: Group) -> Standing:
        if group not in self.good:
            struck = group.metric if group.last.result.status == Status.INVALID else None
            figure = struck.value if struck else None
            reason = group.last.obstacle
            if group.good and group.metric:
                reason = (
                    f"its figure is another statistic than the others' ({group.metric.name} by"
                    f" {group.metric.estimate}), so it is not compared with them"
                )
            return Standing(group=group, figure=figure, struck=bool(struck), reason=reason)
        ratio = self.ratios.get(group)
        # The leader needs a rival to be the best.
        known = [ratio] if ratio else self.ratios.values()
        best = group in self.leading and any(r.low for r in known)
        figure = statistics.geometric_mean(self.field[0].figures)
        low = high = None
        if ratio:
            sign = 1 if self.higher_is_better else -1
            if ratio.low and ratio.high and not self.inconclusive:
                ends = (figure * ratio.low**sign, figure * ratio.high**sign)
                low, high = sorted(ends)
            figure *= ratio.value**sign
        faster = self.faster.get(group)
        return Standing(
            group=group,
            figure=figure,
            low=low,
            high=high,
            best=best and not self.unranked and not self.inconclusive,
            behind=faster.sut if faster and ratio and not ratio.different else "",
            relative=ratio,
            unranked="" if self.unranked else next(iter(group.unranked), ""),
        )

    @cached_property
    def unlike(self) -> dict[str, list[str]]:
        """Sentence → the SUTs that it is about.

        A sentence describes a difference between the measurements of these SUTs and of the leader.
        """
        found = []
        for other, ratio in self.ratios.items():
            sentences = compare.conditions(self.field[0].last, other.last)
            if ratio.method == "Welch t":
                sentences.append(compare.NOT_IN_TURNS)
            found += [(sentence, other.sut) for sentence in sentences]
        return collected(found)

    def obstacle(self, sut: str) -> str:
        """Return why a SUT that has no place here cannot do this work.

        Empty if it has a place, or if it could do the work and was not measured.
        """
        cell = self.cell
        if sut in self.entries:
            return ""
        return _obstacle(sut, cell.model, cell.task, cell.precision, cell.device)

    @property
    def decided(self) -> bool:
        """Whether the comparison has a best SUT."""
        return any(entry.best for entry in self.entries.values())


def mostly_disturbed(comparisons: Sequence[Comparison]) -> str:
    """A sentence if most runs of these comparisons were disturbed. Empty if they were not."""
    groups = [group for comparison in comparisons for group in comparison.field]
    of_runs = [run.disturbances for group in groups for run in group.good]
    disturbed = [reasons for reasons in of_runs if reasons]
    if 2 * len(disturbed) <= len(of_runs):
        return ""
    return f"{len(disturbed)} of {len(of_runs)} runs were disturbed ({disturbed[0][0]})"


@lru_cache
def _obstacle(sut: str, model: str, task: str, precision: str, device: str) -> str:
    if sut not in SUTS or model not in models.names():  # measured with a user's SUT or model
        return ""
    known = models.load(model)
    if task in known.tasks:
        known = models.load(model, task)
    reason = unsupported(
        sut,
        model=model,
        architecture=known.architecture,
        task=task,
        precision=precision,
        device=device,
    )
    return reason or ""


def listed(names: Iterable[str]) -> str:
    """Return `a, b and c`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
