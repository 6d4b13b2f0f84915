"""The release of a package after which a cell is slower or faster, or after which its answers are
wrong. No file is read here: `measure` is a small sweep, which goes on after an interruption.

A step is named only if the ends differ, and if new runs of the two releases next to it differ in
the same direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.comparison.pooled import Pooled, Rounds
from harness.comparison.statistics import COVERAGE, Ratio, plural

MORE = (1, 2, 4)
"""A release that differs from neither end is measured so many times as often, until it does."""
ENDS, AGAIN = "ends", "again"
_CHANCE = 1 - COVERAGE


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The runs of one release.

    Attributes:
        speeds: of the runs with status ok.
        wrong: why its answers are refused; empty: they are not.
        obstacle: why it has no figure; empty: it has one.
        disturbed: how many of the `runs` something disturbed.
    """

    speeds: Rounds = field(default_factory=dict)
    wrong: str = ""
    obstacle: str = ""
    disturbed: int = 0
    runs: int = 0


Trials = Mapping[str, Trial]
"""Release → its runs, which were measured in turns with those of the others."""
Measure = Callable[[str, Sequence[str], int], Trials]
"""(name of the stage, releases, repeats) → their runs."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The end of a search.

    Attributes:
        sentence: what was found.
        before, after: the releases next to the step; empty: none is named.
        ratio: the speed after the step over that before it, of runs that decided nothing before.
        wrong: release → why its answers are refused.
        left_out: release → why it has no figure.
        decided: whether the search came to an end.
    """

    sentence: str
    before: str = ""
    after: str = ""
    ratio: Ratio | None = None
    wrong: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    decided: bool = True


def most_trials(releases: int, repeats: int) -> tuple[int, int]:
    """(environments, measurements) of a search in so many releases, if each release between is
    measured as often as planned and has a figure.
    """
    halvings = math.ceil(math.log2(releases - 1))
    return 2 + halvings, repeats * (2 + 3 * halvings + 2)


def false_alarms() -> float:
    """The chance that a step of speed is named if all releases are equally fast: that the ends
    differ by chance, and that new runs of the releases next to the step do so in the same
    direction.
    """
    return _CHANCE * _CHANCE / 2


def search(releases: Sequence[str], measure: Measure, repeats: int, answers: bool) -> Found:
    """Find the step between the first and the last of the releases.

    `answers`: whether it is one of right and wrong answers, instead of speed.
    """
    return _Search(releases, measure, repeats, answers).found()


@dataclass
class _Search:
    _releases: Sequence[str]
    _measure: Measure
    _repeats: int
    _answers: bool
    _known: dict[str, Trial] = field(default_factory=dict)

    def found(self) -> Found:
        """Return what the search finds."""
        low, high = self._releases[0], self._releases[-1]
        trials = self._tried(ENDS, (low, high))
        for end in (low, high):
            if reason := self._obstacle(trials[end]):
                return self._end(f"nothing is decided: {end} has no figure: {reason}", False)
        if busy := self._disturbance(trials):
            return self._end(busy, False)
        direction = self._difference(trials, low, high)
        if not direction:
            return self._end(f"no step is shown between {low} and {high}: {self._gap(trials)}")
        while middle := self._middle(low, high):
            bounds = self._halved(low, middle, high, direction)
            if bounds is None:
                words = f"the step is between {low} and {high}, and {middle} differs from neither"
                return self._end(f"nothing more is decided: {words}", False)
            low, high = bounds
        return self._confirmed(low, high, direction)

    def _tried(self, stage: str, releases: Sequence[str], times: int = 1) -> Trials:
        trials = self._measure(stage, releases, self._repeats * times)
        self._known |= trials
        return trials

    def _obstacle(self, trial: Trial) -> str:
        """Why a release says nothing on the step. Empty: it says something."""
        return "" if self._answers and trial.wrong else trial.obstacle

    def _middle(self, low: str, high: str) -> str:
        """The release nearest to the middle of two that may have a figure. Empty: there is none."""
        first, last = map(self._releases.index, (low, high))
        for n in sorted(range(first + 1, last), key=lambda n: abs(2 * n - first - last)):
            known = self._known.get(self._releases[n])
            if known is None or not self._obstacle(known):
                return self._releases[n]
        return ""

    def _halved(self, low: str, middle: str, high: str, direction: int) -> tuple[str, str] | None:
        """The two releases between which the step is, or the larger one of two: as before if the
        middle has no figure. None: it is not known.
        """
        tries = MORE[:1] if self._answers else MORE
        for times in tries:
            trials = self._tried(middle, (low, middle, high), times)
            if self._obstacle(trials[middle]):
                return low, high
            before = self._difference(trials, low, middle) == direction
            after = self._difference(trials, middle, high) == direction
            if before and after:
                before = _larger(_ratio(trials, low, middle), _ratio(trials, middle, high))
            if before or after:
                return (low, middle) if before else (middle, high)
        return None

    def _difference(self, trials: Trials, a: str, b: str) -> int:
        """1 if B is shown to be faster than A or has right answers where those of A are wrong, -1
        the other way round, 0 if no difference is shown.
        """
        if self._answers:
            return bool(trials[a].wrong) - bool(trials[b].wrong)
        ratio = _ratio(trials, a, b)
        if ratio is None or not ratio.different:
            return 0
        return 1 if ratio.value > 1 else -1

    def _disturbance(self, trials: Trials) -> str:
        """Why the runs show nothing, if speed is looked at and most were disturbed, else empty."""
        return "" if self._answers else _mostly_disturbed(trials)

    def _gap(self, trials: Trials) -> str:
        """The two releases in words."""
        (a, one), (b, other) = trials.items()
        if self._answers:
            return f"the answers of both are {'refused' if one.wrong else 'right'}"
        ratio = _ratio(trials, a, b)
        return ratio.verdict(b, a) if ratio else "too few runs"

    def _confirmed(self, low: str, high: str, direction: int) -> Found:
        """Measure the two releases next to the step once more. Their first runs chose them, so
        they would show too large a step.
        """
        trials = self._tried(AGAIN, (low, high))
        if busy := self._disturbance(trials):
            return self._end(busy, False)
        if self._difference(trials, low, high) != direction:
            words = f"the ends differ, and new runs of {low} and {high}, where the step would be,"
            return self._end(f"no step is shown: {words} do not: {self._gap(trials)}")
        if self._answers:
            what = "refused" if direction < 0 else "right again"
            return self._end(
                f"after {low} the answers are {what}: {high} is the first such release",
                before=low,
                after=high,
            )
        ratio = _ratio(trials, low, high)
        assert ratio
        what = "faster" if direction > 0 else "slower"
        sentence = f"after {low} the cell is {what}: {high} has {ratio.times('its speed')}"
        return self._end(sentence, before=low, after=high, ratio=ratio)

    def _end(self, sentence: str, decided: bool = True, **more: Any) -> Found:
        """What was found, with the finds on the way. Releases between that have no figure may hold
        the step, too.
        """
        wrong = {of: trial.wrong for of, trial in self._known.items() if trial.wrong}
        left_out = {
            of: trial.obstacle
            for of, trial in self._known.items()
            if trial.obstacle and not trial.wrong
        }
        return Found(sentence=sentence, decided=decided, wrong=wrong, left_out=left_out, **more)


def _ratio(trials: Trials, a: str, b: str) -> Ratio | None:
    """The speed of B over that of A. None: too few rounds have both."""
    series = {of: trial.speeds for of, trial in trials.items()}
    return Pooled(series=series, compared=len(series)).ratio(b, a)


def _larger(a: Ratio | None, b: Ratio | None) -> bool:
    """Whether the first of two steps is the larger one."""
    return bool(a and b and abs(math.log(a.value)) > abs(math.log(b.value)))


def _mostly_disturbed(trials: Trials) -> str:
    """A sentence if more than half of the runs of a release were disturbed, else empty."""
    for release, trial in trials.items():
        if 2 * trial.disturbed > trial.runs:
            return (
                f"nothing is decided, because {trial.disturbed} of {plural(trial.runs, 'run')} of"
                f" {release} were disturbed: measure again (--again) with nothing else running"
            )
    return ""
