"""SUTs that did the same work → a comparison, with each SUT's place and the answer in words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from formats.result import Status
from harness.comparison import compare, statistics, tables
from harness.comparison.pooled import Pooled
from harness.comparison.tables import Group
from harness.figure import compared, short
from harness.inputs import models
from harness.messages import Answer, Differs, Inconclusive, NotCompared
from harness.report import threads
from sut.registry import SUTS, unsupported

_MOST_REASONS = 3
_FAR = 0.03  # A control run that differs by less does not make a comparison inconclusive.


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A SUT's place in a comparison.

    Attributes:
        figure: the compared number, which is the median of the repeats in the unit of the
            comparison; None if there is none.
        low, high: a 95 % interval of the mean of this cell's runs.
        struck: whether the figure is of an invalid run, and is shown struck out.
        best: whether it is in the leading group, because no SUT is shown to be faster.
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
    relative: statistics.Ratio | None = None
    reason: str = ""
    unranked: str = ""


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

    groups: tuple[Group, ...]
    older: int = 0
    apart: str = ""
    controls: tuple[Group, ...] = ()
    shared: Collection[str] = ()

    @classmethod
    def of(
        cls,
        groups: Sequence[Group],
        apart: str = "",
        controls: Sequence[Group] = (),
        shared: Collection[str] = (),
    ) -> Comparison:
        """Return the comparison of groups that did the same work, with each SUT's last group."""
        latest: dict[str, Group] = {}
        for group in groups:
            other = latest.get(group.sut)
            if other is None or group.order > other.order:
                latest[group.sut] = group
        older = len(groups) - len(latest)
        return cls(
            groups=tuple(latest.values()),
            older=older,
            apart=apart,
            controls=tuple(controls),
            shared=shared,
        )

    @cached_property
    def name(self) -> str:
        """The work in words."""
        return self._named(compare.describe(self.groups[0], self.shared))

    @property
    def full_name(self) -> str:
        """The work in words, with the settings that are written only once on a page."""
        return self._named(compare.describe(self.groups[0]))

    def _named(self, work: str) -> str:
        return f"{work}, {self.apart}" if self.apart else work

    @cached_property
    def good(self) -> list[Group]:
        """The groups that have figures of one kind, the fastest first."""
        with_figures = [g for g in self.groups if g.good and g not in self.refused]
        means = {g.sut: g.summary.mean for g in with_figures if g.summary}
        return sorted(with_figures, key=lambda g: means[g.sut], reverse=self.higher_is_better)

    @cached_property
    def refused(self) -> list[Group]:
        """The groups whose figure is another statistic than most groups' figures.

        Such a figure is not compared with the others.
        """
        with_figures = [g for g in self.groups if g.good]
        kinds = [_kind(g) for g in with_figures]
        ranks = {kind: (kind[1] == "median", kinds.count(kind)) for kind in kinds}
        usual = max(ranks, key=lambda kind: ranks[kind], default=None)
        return [g for g in with_figures if _kind(g) != usual]

    @cached_property
    def unit(self) -> str:
        """The unit of all its figures; empty if there is none."""
        return next((g.metric.unit for g in self.good or self.groups if g.metric), "")

    @cached_property
    def higher_is_better(self) -> bool:
        """Whether a higher figure is better."""
        return next((g.metric.higher_is_better for g in self.groups if g.metric), True)

    @cached_property
    def controlled(self) -> list[tuple[Group, Group]]:
        """(a SUT's group, its control run) for each of these cells that a sweep measured again."""
        return [(g, c) for g in self.good for c in self.controls if c.good and _same(g, c)]

    @cached_property
    def pooled(self) -> Pooled:
        """The speeds round by round, with the noise that all SUTs share."""
        return tables.pool(self.good, [control for _, control in self.controlled])

    def ratio(self, a: Group, b: Group) -> statistics.Ratio:
        """Return the speed of A over that of B, from the common noise of all SUTs.

        Only the runs of these two are used if they share too few rounds, or if there are no other
        SUTs and six runs of both.
        """
        repeats = min(len(g.good) for g in self.good)
        if len(self.good) == 2 and repeats >= statistics.FEWEST_FLIPPED:
            return tables.ratio(a, b)
        return self.pooled.ratio(a.sut, b.sut) or tables.ratio(a, b, compared=len(self.good))

    @cached_property
    def control_ratios(self) -> list[tuple[Group, statistics.Ratio]]:
        """(cell, speed of its control run over its own) for each cell with a control run.

        Both measured the same cell, so the ratio shows only noise.
        """
        found = []
        for n, (original, control) in enumerate(self.controlled):
            pooled = self.pooled.ratio(tables.control_name(n), original.sut)
            found.append((original, pooled or tables.ratio(control, original)))
        return found

    @property
    def repeats(self) -> str:
        """`5 runs`, or `3 to 5 runs`; empty if there is no figure."""
        counts = sorted(len(g.good) for g in self.good)
        if not counts:
            return ""
        most = statistics.plural(counts[-1], "run")
        return most if counts[0] == counts[-1] else f"{counts[0]} to {most}"

    @cached_property
    def field(self) -> list[Group]:
        """The groups that the answer is about, the fastest first.

        They are the ranked ones, or all if fewer than two are ranked. They are ordered by the mean
        of all runs. But a group that is shown to be faster than the first one leads. Only pairs of
        repeats count for that, and not single runs without a partner.
        """
        ranked = [g for g in self.good if not g.unranked]
        field = ranked if len(ranked) > 1 else self.good
        for rival in field[1:]:
            ratio = self.ratio(rival, field[0])
            if ratio.different and ratio.value > 1:
                field = [rival, *(g for g in field if g is not rival)]
        return field

    @cached_property
    def unranked(self) -> str:
        """Why the figures of the answer may not be compared; empty if they may."""
        return next((g.unranked[0] for g in self.field if g.unranked), "")

    @cached_property
    def ratios(self) -> dict[str, statistics.Ratio]:
        """SUT → its speed over the leader's, for all SUTs except the leader."""
        return {g.sut: self.ratio(g, self.field[0]) for g in self.good if g is not self.field[0]}

    @cached_property
    def leading(self) -> list[Group]:
        """The leading group, the best figure first: no SUT is shown to be faster than these."""
        return [g for g in self.field if g is self.field[0] or self._level(g)]

    def _level(self, group: Group) -> bool:
        """Return whether no difference to the first group is shown, although there are enough
        runs.
        """
        ratio = self.ratios[group.sut]
        return ratio.low is not None and not ratio.different

    @cached_property
    def doubt(self) -> str:
        """The reason why these runs do not show which SUT is faster. Empty if they may show it."""
        if len(self.field) < 2:
            return ""
        of_machine = self._disturbance or self._far_control or self._uncertainty
        return threads.doubt(self.field) or of_machine

    @cached_property
    def inconclusive(self) -> str:
        """The reason why these runs do not show which SUT is faster, and what to do.

        Empty if they may show it.
        """
        if not self.doubt or self.doubt == threads.doubt(self.field):
            return self.doubt
        return measure_again(self.doubt, [self])

    @property
    def disturbances(self) -> list[str]:
        """The worst disturbance of each run that the answer is about. Empty if there is none."""
        return [run.disturbances[0] for g in self.field for run in g.good]

    @property
    def _disturbance(self) -> str:
        """The disturbance of most runs, or of most runs of one SUT. Empty if there is none."""
        of_runs = mostly_disturbed([self])
        if of_runs:
            return of_runs
        for group in self.field:
            if group.disturbed:
                return Inconclusive.SUT_DISTURBED.format(sut=group.sut, disturbed=group.disturbed)
        return ""

    @property
    def _far_control(self) -> str:
        """The distance of a control run from its cell. Empty if none is far away."""
        for group, ratio in self.control_ratios:
            is_far = ratio.different and abs(ratio.value - 1) > _FAR
            if ratio.low and ratio.high and (is_far or ratio.unsure):
                between = statistics.interval(ratio.low, ratio.high)
                return Inconclusive.CONTROL.format(
                    sut=group.sut, ratio=ratio.value, interval=between
                )
        return ""

    @property
    def _uncertainty(self) -> str:
        """The narrowest interval, if all are wider than a factor of two; otherwise empty."""
        ratios = [self.ratios[group.sut] for group in self.field[1:]]
        known = [ratio for ratio in ratios if ratio.low]
        if not known or not all(r.unsure for r in known):
            return ""
        narrowest = min(known, key=lambda r: r.spread or 0)
        between = statistics.interval(narrowest.low or 0, narrowest.high or 0)
        return Inconclusive.ALL_UNSURE.format(interval=between)

    @cached_property
    def entries(self) -> dict[str, Standing]:
        """SUT → its place in the comparison."""
        return {g.sut: self._entry(g) for g in self.groups}

    @cached_property
    def finding(self) -> str:
        """Which SUT is fastest and by how much, whether the figures are ranked or not."""
        missing = [g for g in self.groups if g not in self.good]
        reasons = "; ".join(f"{g.sut}: {_why_not(g)}" for g in missing[:_MOST_REASONS])
        if not self.good:
            return Answer.NO_FIGURE.format(reasons=reasons)
        leader = self.field[0]
        if len(self.field) == 1:
            text = Answer.ONE_FIGURE.format(sut=leader.sut, figure=compare.figure(leader))
            return f"{text} ({reasons})" if reasons else text
        if self.inconclusive:
            return Answer.INCONCLUSIVE.format(why=self.inconclusive)
        return self._of_leader()

    @cached_property
    def answer(self) -> str:
        """Which SUT is fastest and by how much, and what is not ranked, in one or two sentences."""
        text = self.finding
        if self.other_factors:
            text += f"; {Differs.LORA}"
        if self.inconclusive:
            return text
        if unequal := threads.difference(self.field):
            text += f"; {unequal}"
        outside = []
        for group in self.good:
            if group not in self.field:
                reason = group.unranked[0]
                outside.append(Answer.UNRANKED_SUT.format(sut=group.sut, reason=reason))
        reasons = self.unranked or "; ".join(outside)
        return text + Answer.UNRANKED.format(reason=reasons) if reasons else text

    @property
    def other_factors(self) -> bool:
        """True if each library trains other factors in these trainings by LoRA.

        This is the case with `--lora own`.
        """
        return compare.other_factors(g.cell for g in self.good)

    def _of_leader(self) -> str:
        leader, second = self.field[:2]
        ahead = self.ratio(leader, second)
        if ahead.low is None:
            return Answer.BEST_BY_CHANCE.format(
                sut=leader.sut,
                ratio=ahead.value,
                second=second.sut,
                runs=statistics.plural(min(ahead.repeats), "run"),
            )
        behind = [g for g in self.field[1:] if self.ratios[g.sut].different]
        if len(self.leading) > 1:
            suts = listed([g.sut for g in self.leading])
            if not behind:
                return Answer.LEADING_GROUP.format(suts=suts)
            times = _by(self.ratio(leader, behind[0]), behind[0].sut)
            return Answer.LEADING_GROUP_AHEAD.format(suts=suts, sut=leader.sut, times=times)
        if not behind or second is not behind[0]:
            return Answer.TOO_FEW_OF_SECOND.format(sut=leader.sut, second=second.sut)
        text = Answer.FASTEST.format(sut=leader.sut, times=_by(ahead, second.sut))
        last = behind[-1]
        if last is not second and last is self.field[-1]:
            text += Answer.SLOWEST.format(times=_by(self.ratio(leader, last), last.sut))
        return text

    def _entry(self, group: Group) -> Standing:
        result = group.last.result
        if group not in self.good:
            metric = compared(result) if result.status == Status.INVALID else None
            figure = metric.value if metric else None
            reason = _why_not(group)
            return Standing(group=group, figure=figure, struck=metric is not None, reason=reason)
        s = group.summary
        assert s is not None
        ratio = self.ratios.get(group.sut)
        # The leader needs a rival to be the best.
        known = [ratio] if ratio else self.ratios.values()
        best = group in self.leading and any(r.low is not None for r in known)
        best = best and not self.unranked and not self.inconclusive
        unranked = "" if self.unranked else next(iter(group.unranked), "")
        return Standing(
            group=group,
            figure=s.median,
            low=s.low,
            high=s.high,
            best=best,
            relative=ratio,
            unranked=unranked,
        )

    @cached_property
    def unlike(self) -> dict[str, list[str]]:
        """Sentence → the SUTs that it is about.

        A sentence describes a difference between the measurements of these SUTs and of the leader.
        """
        found: dict[str, list[str]] = {}
        for other in (g for g in self.good if g is not self.field[0]):
            sentences = compare.conditions(self.field[0], other)
            if self.ratios[other.sut].method == "Welch t":
                sentences.append(Differs.NOT_IN_TURNS)
            for sentence in sentences:
                found.setdefault(sentence, []).append(other.sut)
        return found

    def obstacle(self, sut: str) -> str:
        """Return why a SUT that has no place here cannot do this work.

        Empty if it has a place, or if it could do the work and was not measured.
        """
        if sut in self.entries:
            return ""
        cell = self.groups[0].cell
        return _obstacle(sut, cell.model, cell.task, cell.precision, cell.device)

    def is_best(self, sut: str) -> bool:
        """Return whether a SUT is in the leading group of a decided comparison."""
        return sut in self.entries and self.entries[sut].best

    @property
    def decided(self) -> bool:
        """Whether the comparison has a best SUT."""
        return any(entry.best for entry in self.entries.values())


def mostly_disturbed(comparisons: Sequence[Comparison]) -> str:
    """A sentence if most runs of these comparisons were disturbed. Empty if they were not."""
    of_runs = [text for comparison in comparisons for text in comparison.disturbances]
    reasons = [text for text in of_runs if text]
    if 2 * len(reasons) <= len(of_runs):
        return ""
    return Inconclusive.RUNS_DISTURBED.format(
        disturbed=len(reasons), runs=len(of_runs), first=reasons[0]
    )


def measure_again(why: str, comparisons: Sequence[Comparison]) -> str:
    """The reason why these comparisons show nothing, and how often to measure again."""
    most = max(len(g.good) for comparison in comparisons for g in comparison.field)
    return Inconclusive.MEASURE_AGAIN.format(why=why, repeats=max(statistics.FEWEST, 2 * most))


def range_of(low: float | None, high: float | None) -> str:
    """Return `612–640`; empty if there is no interval."""
    if low is None or high is None:
        return ""
    return f"{short(low)}–{short(high)}"


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


def _kind(group: Group) -> tuple[str, str]:
    """Return the statistic of a group's figure: its name and how it was estimated."""
    assert group.metric is not None
    return group.metric.name, group.metric.estimate


def _same(group: Group, control: Group) -> bool:
    """Return whether the control run is of this cell, measured in the same way."""
    one, other = group.last, control.last
    equal = group.cell.digest == control.cell.digest and one.result.mode == other.result.mode
    return equal and one.machine == other.machine and not compare.differences(group, control)


def _why_not(group: Group) -> str:
    """Return why a group has no place among the others."""
    metric = group.metric
    if group.good and metric:
        return NotCompared.STATISTIC.format(name=metric.name, estimate=metric.estimate)
    return group.last.obstacle


def _by(ratio: statistics.Ratio, other: str) -> str:
    """Return `1.47 × other (1.43–1.52)`, or `at least 2.21 × other` if that is very uncertain."""
    if ratio.unsure and ratio.low and ratio.low > 1:
        return Answer.AT_LEAST.format(ratio=ratio.low, b=other)
    return ratio.times(other)


def listed(names: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
