"""Repeats of a cell → intervals, ratios, verdicts in words and advice. No file is read here.

All is computed on logarithms, because noise multiplies a speed: on a machine that is 3 % slower
every figure is 3 % smaller. The logarithm of a ratio is a difference, whose interval is known.
Fleming & Wallace 1986, "How not to lie with statistics", CACM 29:3, explains why ratios need the
geometric mean.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

COVERAGE = 0.95
"""The share of comparisons in which the intervals of all ratios contain the true ratios.

The interval of a single cell contains its true speed less often, because it does not include drift.
"""
_COVERAGE_OF_MANY = 0.96
"""The coverage of many pairs if the noise is normal, so that it is `COVERAGE` with outliers."""
FEWEST = 3
"""The fewest repeats of a cell for a comparison. Two may differ by any amount by chance."""
EQUAL = 0.1
"""SUTs whose speeds differ by at most this share are called equal."""
# With sign flips, 6 differences are the fewest that can reach 95 %. A difference counts at most 1.5
# times the median difference. Two equal cells are called different with a chance of `_FLIP_LEVEL`.
# It is a little below 5 %, because the p value of flips has steps.
FEWEST_FLIPPED = 6
_CLIP = 1.5
_FLIP_LEVEL = 0.045
_MOST_FLIPS = 12  # up to 4096 sign flips are all counted; of more, 4096 are drawn
# A repeat is an outlier if it exceeds both this number of deviations (Iglewicz & Hoaglin 1993, the
# modified z score) and this share.
_OUTLYING_Z = 5.0
_OUTLYING_SHARE = 0.08
_MOST_DECIMALS = 4
_ROUNDING = 1e-12  # the logarithms of equal figures may differ by this much


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The mean of the repeats of one cell and its interval.

    Attributes:
        mean: in the figures' unit; of figures that are compared it is the geometric mean.
        low, high: a 95 % interval of the mean; None for fewer than three repeats.
    """

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """The speed of A over the speed of B.

    Attributes:
        value: 1.47 means that A is 1.47 times as fast as B.
        low, high: its 95 % interval; None if there are too few repeats. The intervals of all pairs
            of a comparison hold at once, so they are wider if there are many pairs.
        different: whether a difference is shown: the interval does not contain 1.
        method: how the interval was computed: `pooled`, `paired t`, `sign flips`, `Welch t`, or
            `none`.
        repeats: the numbers of repeats of A and of B.
    """

    value: float
    low: float | None = None
    high: float | None = None
    different: bool = field(init=False)
    method: str = "none"
    repeats: tuple[int, int]

    def __post_init__(self) -> None:
        """Set `different`."""
        shown = (self.low or 1.0) > 1 + _ROUNDING or (self.high or 1.0) < 1 - _ROUNDING
        object.__setattr__(self, "different", shown)

    @property
    def spread(self) -> float:
        """Half the width of the interval as a share of the ratio: 0.02 is ±2 %. 0 without an
        interval.
        """
        return math.sqrt((self.high or 1.0) / (self.low or 1.0)) - 1

    @property
    def farthest(self) -> float:
        """How far apart the two may be, in either direction: at most 1.09 times. 1 without an
        interval.
        """
        return max(self.high or 1.0, 1 / (self.low or 1.0))

    @property
    def unsure(self) -> bool:
        """Whether the interval is wider than a factor of two."""
        return (self.high or 1.0) > 2 * (self.low or 1.0)

    def verdict(self, a: str = "A", b: str = "B") -> str:
        """One sentence: `A is 1.47 × B (1.43–1.52)`, or why no difference can be stated."""
        if self.low is None:
            runs = plural(min(self.repeats), "run")
            return (
                f"too few repeats: {runs} of one, and {FEWEST} of each are needed; so far {a}"
                f" is {self.value:.3g} × {b}"
            )
        if self.different:
            return f"{a} is {self.times(b)}"
        return f"no difference shown: the interval is {self.between}"

    @property
    def between(self) -> str:
        """`1.43–1.52`, or `no interval`."""
        if self.low is None or self.high is None:
            return "no interval"
        return interval(self.low, self.high)

    @property
    def words(self) -> str:
        """`1.47 ×`, with enough digits to distinguish the ends of the interval."""
        if self.low is None or self.high is None:
            return f"{self.value:.3g} ×"
        return f"{_digits(self.value, self.low, self.high)} ×"

    def times(self, b: str = "") -> str:
        """`1.47 × B (1.43–1.52)`."""
        return " ".join(filter(None, (self.words, b, f"({self.between})")))

    def slower_than(self, share: float) -> bool:
        """Whether A is slower than B by more than `share` (0.05 is 5 %) in the whole interval."""
        return (self.high or 1.0) < 1 - share


def summarise(figures: Sequence[float]) -> Estimate:
    """The geometric mean of figures above 0 and its 95 % interval, in their own unit.

    The interval is Student's t interval of the mean of their logarithms (Georges, Buytaert &
    Eeckhout 2007, "Statistically rigorous Java performance evaluation", section 3.2, uses it for
    few repeats). It assumes independent repeats, so it is too narrow on a machine that drifts.
    `compare` of interleaved repeats does not have this fault.
    """
    logs = _logs(figures)
    mean = float(logs.mean())
    n = len(logs)
    if n < FEWEST:
        return Estimate(mean=math.exp(mean))
    half = _student(n - 1) * float(logs.std(ddof=1)) / math.sqrt(n)
    return Estimate(
        mean=math.exp(mean),
        low=math.exp(mean - half),
        high=math.exp(mean + half),
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

    If paired, each repeat of A is compared with the repeat of B that was measured with it, so that
    a cause that slows both cancels out. Up to five pairs get Student's t interval of the mean
    difference of logarithms. From six pairs on, the interval contains every ratio that a
    permutation test of the pairs does not reject (Lehmann & Romano 2005, "Testing statistical
    hypotheses", section 15.2). This test does not assume normal noise, and a difference counts at
    most one and a half times the median one. If unpaired, it is Welch's t interval (Welch 1947).
    `tests/scale/ab_simulation.py` prints how often these intervals contain the truth.

    Args:
        a, b: the figures of the repeats, above 0.
        higher_is_better: False for latencies. The ratio is a ratio of speeds in both cases.
        paired: a[i] and b[i] were measured one after the other (interleaved).
        compared: the number of series from which a reader chooses this pair (see `judged`).

    Raises ValueError if three or more paired repeats have different counts.
    """
    sign = 1 if higher_is_better else -1
    x = sign * _logs(a)
    y = sign * _logs(b)
    counts = (len(x), len(y))
    middle = float(x.mean() - y.mean())
    if min(counts) < FEWEST:
        return Ratio(value=math.exp(middle), repeats=counts)
    if not paired:
        error, freedom = _welch(x, y)
        return judged(middle, error, freedom, compared, "Welch t", counts)
    difference = x - y
    if compared == 2 and len(x) >= FEWEST_FLIPPED:
        median = float(np.median(difference))
        ends = (float(difference.min()), float(difference.max()))
        low, high = (math.exp(_flip_end(difference, median, end)) for end in ends)
        return Ratio(
            value=math.exp(median),
            low=low,
            high=high,
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
    """The ratio for a difference of logarithms with this standard error.

    Its interval is Student's for two SUTs. For more it is that of Tukey's test of all pairs (Tukey
    1953, "The problem of multiple comparisons"). In 95 of 100 comparisons the intervals of all
    pairs contain the true ratios at once, so a reader may choose any pair.

    Args:
        freedom: degrees of freedom of `error`.
        compared: the number of SUTs from which the pair was chosen; 2 if it was named before
            measuring.
    """
    limit = _student(freedom)
    if compared > 2:
        limit = max(limit, _tukey(compared, max(1, int(freedom))))
    half = limit * error
    return Ratio(
        value=math.exp(difference),
        low=math.exp(difference - half),
        high=math.exp(difference + half),
        method=method,
        repeats=repeats,
    )


@cache
def _student(freedom: float) -> float:
    from scipy import special  # it takes half a second to import

    return float(special.stdtrit(freedom, (1 + COVERAGE) / 2))


@cache
def _tukey(compared: int, freedom: int) -> float:
    """The limit of the largest difference of all pairs, in standard errors."""
    from scipy import stats  # it takes two seconds to import, and most commands do not need it

    limit = float(stats.studentized_range.ppf(_COVERAGE_OF_MANY, compared, freedom))
    return limit / math.sqrt(2)


def more_repeats(ratio: Ratio) -> int:
    """About how many more repeats of both decide a ratio. 0: it is decided.

    It is decided if a difference is shown, or if the two are at most `EQUAL` apart. The number
    follows from the width of the interval, which is as the inverse root of the repeats.
    """
    repeats = min(ratio.repeats)
    if ratio.low is None:
        return max(1, FEWEST - repeats)
    if ratio.different or ratio.farthest - 1 <= EQUAL:
        return 0
    half = math.log1p(ratio.spread)
    away = abs(math.log(ratio.value))
    enough = max(away, math.log1p(EQUAL) - away)
    return max(1, math.ceil(repeats * (half / enough) ** 2) - repeats)


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean of ratios. For a ratio and its inverse it is 1."""
    return math.exp(float(_logs(ratios).mean()))


def advice(figures: Sequence[float], disturbed: int = 0) -> list[str]:
    """List the faults of the repeats of one cell with advice, one sentence each. Empty if there is
    none.

    Args:
        figures: the figures of the repeats, in the order they were measured.
        disturbed: the number of runs that something disturbed.
    """
    sentences = []
    repeats = plural(len(figures), "repeat")
    if len(figures) < FEWEST:
        sentences.append(
            f"{repeats}: measure at least {FEWEST}, because two runs of one cell differ by chance"
        )
    logs = _logs(figures)
    distances = np.abs(logs - np.median(logs))
    # Of three repeats it is not clear which one is far from the others.
    least = max(_OUTLYING_SHARE, _OUTLYING_Z * (1.4826 * np.median(distances)))
    far = [str(n) for n, distance in enumerate(distances, 1) if distance > least]
    if far and len(figures) > 3:
        sentences.append(
            f"repeat {', '.join(far)} is far from the others, so something disturbed it: measure"
            " more repeats"
        )
    if disturbed:
        were = "was" if disturbed == 1 else "were"
        sentences.append(f"{disturbed} of {repeats} {were} disturbed")
    return sentences


def interval(low: float, high: float) -> str:
    """`1.43–1.52`, with enough digits to distinguish the two ends."""
    return f"{_digits(low, low, high)}–{_digits(high, low, high)}"


def plural(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _digits(value: float, low: float, high: float) -> str:
    width = high - low
    decimals = 0
    if value < 100:
        decimals = 1 if value >= 10 else 2
        decimals += (1e-9 < width < 0.02) + (1e-9 < width < 0.002)
    # 1.001 as 1.00 would look as if 1 were inside.
    while decimals < _MOST_DECIMALS and (_seems_1(low, decimals) or _seems_1(high, decimals)):
        decimals += 1
    return f"{value:,.{decimals}f}"


def _seems_1(end: float, decimals: int) -> bool:
    return end != 1 and round(end, decimals) == 1


def _logs(figures: Sequence[float]) -> np.ndarray:
    values = np.asarray(figures, np.float64)
    if not len(values) or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"figures are numbers above 0, and these are {list(figures)[:5]}")
    return np.log(values)


def _welch(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """(standard error of the difference of means, its degrees of freedom)."""
    parts = [v.var(ddof=1) / len(v) for v in (x, y)]
    if not sum(parts):
        return 0.0, 1.0
    weights = [part**2 / (len(v) - 1) for part, v in zip(parts, (x, y), strict=True)]
    freedom = sum(parts) ** 2 / sum(weights)
    return math.sqrt(sum(parts)), float(freedom)


def _flip_end(difference: np.ndarray, inside: float, outside: float) -> float:
    """The end of the interval of values that the permutation test does not reject, by bisection.

    Args:
        inside: the median difference.
        outside: the smallest difference or the largest one.
    """
    outside += 1e-9 * np.sign(outside - inside)
    if _flip_p(difference, outside) >= _FLIP_LEVEL:
        return outside
    for _ in range(30):
        between = (inside + outside) / 2
        if _flip_p(difference, between) >= _FLIP_LEVEL:
            inside = between
        else:
            outside = between
    return outside


def _flip_p(difference: np.ndarray, shift: float) -> float:
    """The p value of the permutation test that all differences are symmetric around `shift`: how
    often random signs give as large a sum.
    """
    away = difference - shift
    most = _CLIP * np.median(np.abs(away))
    clipped = np.clip(away, -most, most)
    sums = np.abs(_signs(len(away)) @ clipped)
    return float((sums >= abs(clipped.sum()) * (1 - 1e-12)).mean())


@cache
def _signs(n: int) -> np.ndarray:
    """All rows of n signs, or 4096 random ones, int8 [rows, n]. The first row is all ones, as
    measured.
    """
    if n <= _MOST_FLIPS:
        return np.array(list(itertools.product((1, -1), repeat=n)), np.int8)
    drawn = np.random.default_rng(0).choice(np.array([1, -1], np.int8), (1 << _MOST_FLIPS, n))
    drawn[0] = 1
    return drawn
