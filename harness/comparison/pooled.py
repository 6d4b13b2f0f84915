"""Several SUTs measured in rounds → the ratio of any two, with an interval from the noise of all.

No file is read here. `tests/scale/ab_simulation.py` prints how often the intervals are right.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from harness.comparison.statistics import (
    FEWEST,
    FEWEST_FLIPPED,
    Ratio,
    compare,
    geometric_mean,
    judged,
)

_UNLIKE = 0.05
"""The chance that one of several equally noisy series is called noisier than the others."""

Rounds = Mapping[Hashable, float]
"""A round → the speed of one series in it, above 0."""


def mean_ratio(
    pairs: Sequence[tuple[Rounds, Rounds]],
    *,
    higher_is_better: bool = True,
    compared: int = 2,
) -> Ratio:
    """The speed of the first of each pair over that of the second, as a geometric mean over the
    pairs.

    It is computed round by round, so a drift of the machine between two cells changes no ratio. If
    all series share fewer than three rounds, repeats are not paired. Then each series counts as
    many repeats as the shortest has.

    Args:
        pairs: the figures of the two series in each cell.
        higher_is_better: whether a larger figure is faster.
        compared: the number of SUTs from which the two were chosen.
    """
    every = [series for pair in pairs for series in pair]
    rounds = [of for of in every[0] if all(of in series for series in every)]
    paired = len(rounds) >= FEWEST
    columns = [[series[of] for of in (rounds if paired else series)] for series in every]
    repeats = list(zip(*columns, strict=False))
    fast = [geometric_mean(speeds[0::2]) for speeds in repeats]
    slow = [geometric_mean(speeds[1::2]) for speeds in repeats]
    return compare(fast, slow, higher_is_better=higher_is_better, paired=paired, compared=compared)


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """Series that were measured in rounds, and their common noise.

    A round is the time in which each series was measured once. The model is: logarithm of speed =
    series + round + residual. The effect of a round removes causes that slowed all series at that
    time. The residuals of all series together give the noise, so three repeats of many series are
    enough to know it well.

    Attributes:
        series: name, which may be any key → its rounds.
        compared: the number of series from which a reader chooses a ratio.
    """

    series: Mapping[Any, Rounds]
    compared: int

    def ratio(self, a: Any, b: Any) -> Ratio | None:
        """The speed of A over that of B. None if they share fewer than three rounds.

        Only the runs of the two count if one of them is noisier than the others, or if only two
        SUTs are compared and six rounds allow a permutation test.
        """
        series = self.series
        common = [of for of in series[a] if of in series[b]]
        if len(common) < FEWEST:
            return None
        compared = self.compared
        flips = compared == 2 and len(common) >= FEWEST_FLIPPED
        if flips or {a, b} & set(self.noisy):
            x, y = ([series[name][of] for of in common] for name in (a, b))
            return compare(x, y, paired=True, compared=compared)
        fit = self._fit
        contrast = np.zeros(len(fit.covariance))
        contrast[fit.names.index(a)] = 1
        contrast[fit.names.index(b)] = -1
        error = fit.deviation * math.sqrt(contrast @ fit.covariance @ contrast)
        counts = (len(series[a]), len(series[b]))
        return judged(float(contrast @ fit.effects), error, fit.freedom, compared, "pooled", counts)

    @cached_property
    def noisy(self) -> tuple[Any, ...]:
        """The series that are noisier than the others, the noisiest first.

        They are left out of the common noise, and their ratios use the noise of the pair. An F test
        compares the residuals of each with those of the rest, at 5 % over all series (as Cochran
        1941, Annals of Eugenics 11:47, tests the largest of several variances).
        """
        found: list[Any] = []
        left = dict(self.series)
        while len(left) > 2:
            chances = {name: _chance_of_noise(name, left) for name in left}
            name = min(chances, key=lambda each: chances[each])
            if chances[name] * len(left) >= _UNLIKE:
                break
            found.append(name)
            del left[name]
        return tuple(found)

    @cached_property
    def _fit(self) -> _Fit:
        return _Fit({name: each for name, each in self.series.items() if name not in self.noisy})


class _Fit:
    """The least-squares fit of the model.

    Attributes:
        names: the series.
        effects: logarithms, float64 [series + rounds]. Those `of_rounds` are also there by round.
        covariance: covariance of the effects over the variance of a residual, float64 [series +
            rounds, series + rounds].
        deviation: standard deviation of a residual, a natural logarithm; `freedom`: its degrees.
        connected: whether the effects of all rounds can be compared. This is not so for two sweeps
            without a common series.
    """

    def __init__(self, series: Mapping[Any, Rounds]):
        self.names = list(series)
        rounds = list(dict.fromkeys(of for each in series.values() for of in each))
        cells = []
        speeds = []
        for n, each in enumerate(series.values()):
            for of, speed in each.items():
                cells.append([n, len(series) + rounds.index(of)])
                speeds.append(speed)
        design = np.zeros((len(cells), len(series) + len(rounds)))
        for row, effects in enumerate(cells):
            design[row, effects] = 1
        inverse = np.linalg.pinv(design)
        logs = np.log(speeds)
        self.effects = inverse @ logs
        self.of_rounds = dict(zip(rounds, self.effects[len(series) :], strict=True))
        self.covariance = inverse @ inverse.T
        rank = int(np.linalg.matrix_rank(design))
        self.connected = rank == design.shape[1] - 1
        self.freedom = len(cells) - rank
        squares = float(((logs - design @ self.effects) ** 2).sum())
        self.deviation = math.sqrt(squares / self.freedom) if self.freedom else 0.0


def _chance_of_noise(name: Any, series: Mapping[Any, Rounds]) -> float:
    """The chance of residuals as large as those of `name` if it is as noisy as the others."""
    from scipy import special

    rest = {other: rounds for other, rounds in series.items() if other != name}
    fit = _Fit(rest)
    shared = [of for of in series[name] if of in fit.of_rounds]
    if len(shared) < FEWEST or not fit.freedom or not fit.deviation or not fit.connected:
        return 1.0
    own = [math.log(series[name][of]) - fit.of_rounds[of] for of in shared]
    beside = np.mean([sum(of in rounds for rounds in rest.values()) for of in shared])
    variance = np.var(own, ddof=1) / (1 + 1 / beside)  # the mean of the others has noise, too
    ratio = float(variance) / fit.deviation**2
    return float(special.fdtrc(len(shared) - 1, fit.freedom, ratio))
