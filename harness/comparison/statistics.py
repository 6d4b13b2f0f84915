"""Repeats of a cell → intervals, ratios, verdicts in words and advice. Plain numbers in and out; no
file is read here.

All is computed on logarithms. Noise multiplies a speed, it does not add to it: a machine that is 3
% slower makes every figure 3 % smaller. And the logarithm of a ratio is a difference, whose
interval is known (Fleming & Wallace 1986, "How not to lie with statistics", CACM 29:3, gives the
reason why ratios take the geometric mean).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special

COVERAGE = 0.95
"""The share of experiments in which the interval of a ratio holds the true one.

The interval of a single cell holds its true speed less often, because it knows nothing of drift.
"""
_NO_FALSE_DIFFERENCE = 0.96
"""The least share of comparisons of equal SUTs in which none is called slower than another.

It is 96 % for normal noise, so that it is 95 % for noise with outliers.
"""
FEWEST = 3
"""Repeats of a cell from which a comparison is made. Two differ by chance as much as they like."""
# The sign flips of 6 differences are the fewest that can reach 95 %. A difference counts at most as
# much as 1.5 of the median one, and a pair of equal cells may be called different with this chance:
# a little below 5 %, since flips are counted and go in steps.
FEWEST_FLIPPED, _CLIP, _FLIP_LEVEL = 6, 1.5, 0.045
_MOST_FLIPS = 12  # 4096 sign flips are counted out; of more, as many are drawn
_BATCHES, _FEWEST_A_BATCH = 20, 10
# Advice: a repeat is an outlier beyond so many deviations (Iglewicz & Hoaglin 1993, the modified z
# score) and so large a share.
_OUTLYING_Z, _OUTLYING_SHARE = 5.0, 0.08
_DRIFT_SHARE, _DRIFT_P = 0.03, 0.05
_MOST_DECIMALS = 4
_ROUNDING = 1e-12  # equal figures differ by as much after logarithms


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The repeats of one cell.

    Attributes:
        repeats: how many figures there are.
        median, mean: in the figures' unit; the mean is the geometric one.
        low, high: a 95 % interval of the mean; None where there are fewer than three repeats.
    """

    repeats: int
    median: float
    mean: float
    low: float | None
    high: float | None

    @property
    def spread(self) -> float | None:
        """Half the width of the interval as a share of the mean: 0.02 is ±2 %. None where there is
        no interval.
        """
        return _spread(self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """The speed of A over the speed of B.

    Attributes:
        value: 1.47 says that A is 1.47 times as fast as B.
        low, high: its 95 % interval; None if there are too few repeats.
        different: whether a difference is shown. Of a ratio that a reader chooses from many, more
            is needed than an interval without 1.
        method: how the interval was made: `pooled`, `paired t`, `sign flips`, `Welch t`, or `none`.
        repeats: of A and of B.
    """

    value: float
    low: float | None = None
    high: float | None = None
    different: bool = False
    method: str = "none"
    repeats: tuple[int, int]

    @property
    def spread(self) -> float | None:
        """Half the width of the interval as a share of the ratio: 0.02 is ±2 %. None where there is
        no interval.
        """
        return _spread(self.low, self.high)

    @property
    def unsure(self) -> bool:
        """Whether the interval is wider than a factor of two."""
        return self.low is not None and self.high is not None and self.high > 2 * self.low

    def verdict(self, a: str = "A", b: str = "B") -> str:
        """One sentence: `A is 1.47 × B (1.43–1.52)`, or why no difference can be stated."""
        if self.low is None or self.high is None:
            n = min(self.repeats)
            return (
                f"too few repeats: {plural(n, 'run')} of one, and {FEWEST} of each are needed; so"
                f" far {a} is {self.value:.3g} × {b}"
            )
        if not self.different:
            chosen = (
                ""
                if self.low <= 1 <= self.high
                else ", and with so many pairs chance often makes one as large"
            )
            return f"no difference shown: the interval is {interval(self.low, self.high)}{chosen}"
        return (
            f"{a} is {_digits(self.value, self.low, self.high)} × {b}"
            f" ({interval(self.low, self.high)})"
        )

    def slower_than(self, share: float) -> bool:
        """Whether A is slower than B by more than `share` (0.05 is 5 %), the whole interval."""
        return self.high is not None and self.high < 1 - share


def summarise(figures: Sequence[float]) -> Estimate:
    """Median, mean and a 95 % interval of the mean of figures above 0, in their own unit.

    The interval is Student's t interval of the mean of their logarithms (Georges, Buytaert &
    Eeckhout 2007, "Statistically rigorous Java performance evaluation", section 3.2, has it for few
    repeats). It takes the repeats as independent: a machine that drifts makes it too narrow, which
    `compare` of interleaved repeats does not suffer from.
    """
    logs = _logs(figures)
    mean, half = float(logs.mean()), _t_half(logs) if len(logs) >= FEWEST else None
    low, high = (None, None) if half is None else (math.exp(mean - half), math.exp(mean + half))
    return Estimate(
        repeats=len(logs), median=float(np.median(figures)), mean=math.exp(mean), low=low, high=high
    )


def compare(
    a: Sequence[float],
    b: Sequence[float],
    *,
    higher_is_better: bool = True,
    paired: bool,
    compared: int = 2,
) -> Ratio:
    """The speed of A over that of B, with a 95 % interval.

    Paired, each repeat of A is compared with the repeat of B that was measured with it, so what
    slows both cancels out. Up to five pairs have Student's t interval of the mean difference of
    logarithms. From six pairs on the interval holds every ratio that a permutation test of the
    pairs does not reject (Lehmann & Romano 2005, "Testing statistical hypotheses", section 15.2):
    it does not assume normal noise, and a difference far from the others counts no more than one
    and a half of the median one. Unpaired, it is Welch's t interval (Welch 1947).
    `tests/scale/ab_simulation.py` prints how often these hold the truth.

    Args:
        a, b: the figures of the repeats, above 0.
        higher_is_better: False for latencies; the ratio is of speed all the same.
        paired: a[i] and b[i] were measured one after the other (interleaved).
        compared: how many series a reader chooses this pair from (see `judged`).

    Raises ValueError if paired repeats differ in their counts.
    """
    sign = 1 if higher_is_better else -1
    x, y = sign * _logs(a), sign * _logs(b)
    counts = (len(x), len(y))
    if paired and len(x) != len(y):
        raise ValueError(
            f"paired repeats come in equal counts, and there are {len(x)} and {len(y)}"
        )
    middle = float(x.mean() - y.mean())
    if min(counts) < FEWEST:
        return Ratio(value=math.exp(middle), repeats=counts)
    if not paired:
        error, freedom = _welch(x, y)
        return judged(middle, error, freedom, compared, "Welch t", counts)
    difference = x - y
    if compared == 2 and len(x) >= FEWEST_FLIPPED:
        ends = [math.exp(end) for end in _flip_interval(difference)]
        outside = not ends[1] <= 1 <= ends[2]
        return Ratio(
            value=ends[0],
            low=ends[1],
            high=ends[2],
            different=outside,
            method="sign flips",
            repeats=counts,
        )
    error = float(difference.std(ddof=1)) / math.sqrt(len(x))
    return judged(middle, error, len(x) - 1, compared, "paired t", counts)


def judged(
    difference: float,
    error: float,
    freedom: float,
    compared: int,
    method: str,
    repeats: tuple[int, int],
) -> Ratio:
    """The ratio of a difference of logarithms with this standard error.

    Its interval is Student's. Whether a difference is shown is Tukey's test of all pairs (Tukey
    1953, "The problem of multiple comparisons"): if all SUTs are equal, none of them is called
    slower than another in 95 of 100 comparisons, whichever pair a reader looks at.

    Args:
        freedom: degrees of freedom of `error`.
        compared: how many SUTs the pair was chosen from; 2 if it was named before it was measured.
    """
    half = _student(freedom) * error
    low, high = difference - half, difference + half
    return Ratio(
        value=math.exp(difference),
        low=math.exp(low),
        high=math.exp(high),
        different=abs(difference)
        > max(half, _tukey(compared, max(1, int(freedom))) * error) + _ROUNDING,
        method=method,
        repeats=repeats,
    )


def _student(freedom: float) -> float:
    return float(special.stdtrit(freedom, (1 + COVERAGE) / 2))


@cache
def _tukey(compared: int, freedom: int) -> float:
    """The standard errors of a difference that the largest of all pairs seldom exceeds."""
    if compared <= 2:
        return _student(freedom)
    from scipy import stats  # it takes two seconds to import, which most commands do without

    return float(stats.studentized_range.ppf(_NO_FALSE_DIFFERENCE, compared, freedom)) / math.sqrt(
        2
    )


def within_run(series: np.ndarray) -> Estimate | None:
    """The mean of the latencies of one run and its 95 % interval, in their own unit; None where
    there are fewer than 200.

    Neighbouring latencies resemble each other, so the run is cut into 20 equal stretches and the
    interval is Student's t of the stretches' means (batch means: Law 2015, "Simulation modeling and
    analysis", section 9.5.3). It says how well this run knows its own mean, not how far the next
    run will be off.

    Args:
        series: latencies in the order they came, floats or integers [n].
    """
    if len(series) < _BATCHES * _FEWEST_A_BATCH:
        return None
    length = len(series) // _BATCHES
    means = np.asarray(series[-length * _BATCHES :], np.float64).reshape(_BATCHES, length).mean(1)
    mean, half = float(means.mean()), _t_half(means)
    return Estimate(
        repeats=len(series),
        median=float(np.median(series)),
        mean=mean,
        low=mean - half,
        high=mean + half,
    )


def geometric_mean(ratios: Sequence[float]) -> float:
    """The mean of ratios: that of a ratio and its inverse is 1."""
    return math.exp(float(_logs(ratios).mean()))


def advice(figures: Sequence[float], disturbances: Sequence[str] = ()) -> list[str]:
    """List the faults of the repeats of one cell with advice, one sentence each. Empty if nothing
    is wrong.

    Args:
        figures: the figures of the repeats, in the order they were measured.
        disturbances: what else went on during each run, in words; an empty text: nothing.
    """
    sentences = []
    n = len(figures)
    if n < FEWEST:
        sentences.append(
            f"{plural(n, 'repeat')}: measure at least {FEWEST}, for two runs of one cell differ by"
            " chance"
        )
    if outliers := _outliers(figures):
        sentences.append(
            f"repeat {', '.join(map(str, outliers))} is far from the others: something disturbed"
            " it; more repeats outvote it"
        )
    if n >= 5:
        from scipy import stats

        test = stats.kendalltau(range(n), figures)
        change = float(np.expm1(stats.theilslopes(_logs(figures))[0] * (n - 1)))
        if test.pvalue < _DRIFT_P and abs(change) > _DRIFT_SHARE:
            sentences.append(
                f"the figures drift by {change:+.0%} over the repeats: let the machine settle, and"
                " compare only with interleaved runs"
            )
    if disturbed := sum(map(bool, disturbances)):
        first = next(text for text in disturbances if text)
        sentences.append(
            f"{disturbed} of {plural(n, 'repeat')} {'was' if disturbed == 1 else 'were'} disturbed"
            f" ({first})"
        )
    return sentences


def interval(low: float, high: float) -> str:
    """`1.43–1.52`: as many digits as tell the two ends apart."""
    return f"{_digits(low, low, high)}–{_digits(high, low, high)}"


def plural(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _spread(low: float | None, high: float | None) -> float | None:
    return None if low is None or high is None else math.sqrt(high / low) - 1


def _digits(value: float, low: float, high: float) -> str:
    width = high - low
    decimals = (
        0 if value >= 100 else 2 - (value >= 10) + (1e-9 < width < 0.02) + (1e-9 < width < 0.002)
    )
    while decimals < _MOST_DECIMALS and any(
        end != 1 and round(end, decimals) == 1 for end in (low, high)
    ):
        decimals += 1  # 1.001 as 1.00 would read as if 1 lay inside
    return f"{value:,.{decimals}f}"


def _logs(figures: Sequence[float]) -> np.ndarray:
    values = np.asarray(figures, np.float64)
    if not len(values) or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"figures are numbers above 0, and these are {list(figures)[:5]}")
    return np.log(values)


def _t_half(values: np.ndarray) -> float:
    """Half the width of the t interval of a mean."""
    n = len(values)
    return _student(n - 1) * float(values.std(ddof=1)) / math.sqrt(n)


def _welch(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """(standard error of the difference of means, its degrees of freedom)."""
    parts = [v.var(ddof=1) / len(v) for v in (x, y)]
    if not sum(parts):
        return 0.0, 1.0
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(v) - 1) for part, v in zip(parts, (x, y), strict=True)
    )
    return math.sqrt(sum(parts)), float(freedom)


def _flip_interval(difference: np.ndarray) -> tuple[float, float, float]:
    """(the median difference, low, high): low and high are the ends of what the permutation test
    does not reject, by bisection.
    """
    middle = float(np.median(difference))
    return (
        middle,
        _flip_end(difference, middle, float(difference.min())),
        _flip_end(difference, middle, float(difference.max())),
    )


def _flip_end(difference: np.ndarray, inside: float, outside: float) -> float:
    outside += 1e-9 * np.sign(outside - inside)
    if _flip_p(difference, outside) >= _FLIP_LEVEL:
        return outside
    for _ in range(30):
        between = (inside + outside) / 2
        inside, outside = (
            (between, outside) if _flip_p(difference, between) >= _FLIP_LEVEL else (inside, between)
        )
    return outside


def _flip_p(difference: np.ndarray, shift: float) -> float:
    """The p value of the permutation test that all differences lie evenly around `shift`: how often
    random signs make as large a sum.
    """
    away = difference - shift
    clipped = np.clip(away, *(_CLIP * np.median(np.abs(away)) * np.array([-1, 1])))
    sums = np.abs(_signs(len(away)) @ clipped)
    return float((sums >= abs(clipped.sum()) * (1 - 1e-12)).mean())


@cache
def _signs(n: int) -> np.ndarray:
    """All rows of n signs, or 4096 random ones, int8 [rows, n]; the first is as it was measured."""
    if n <= _MOST_FLIPS:
        return np.array(list(itertools.product((1, -1), repeat=n)), np.int8)
    drawn = np.random.default_rng(0).choice(np.array([1, -1], np.int8), (1 << _MOST_FLIPS, n))
    drawn[0] = 1
    return drawn


def _outliers(figures: Sequence[float]) -> list[int]:
    """The repeats, from 1, that lie far from the others."""
    if len(figures) < 4:
        return []
    logs = _logs(figures)
    distance = np.abs(logs - np.median(logs))
    deviation = 1.4826 * np.median(distance)
    return [
        n for n, d in enumerate(distance, 1) if d > _OUTLYING_SHARE and d > _OUTLYING_Z * deviation
    ]
