"""This program counts how often the harness' statistics are right, on simulated cells.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m tests.scale.ab_simulation [--sweeps N]

The first `./run.sh list` makes that environment. The noise is that of a shared machine. The speed
of a run is the true speed of its cell, times noise of its own, times a drift that all cells share
(an autoregressive process, 0.8 from one run to the next). 3 % of the runs take 30 % longer. The
first table is of pairs of cells, A B A B. The second is of sweeps: in each round all cells are
measured once, in an order of its own.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from harness.comparison import statistics
from harness.comparison.pooled import Pooled, Rounds

REPEATS = (3, 5, 6, 10)
_MEMORY, _OUTLIERS, _OUTLYING = 0.8, 0.03, math.log(1.3)
NOISE, DRIFT = 0.02, 0.03
"""The noise of each run, and the drift that all cells share; standard deviations, as shares."""


@dataclass(frozen=True)
class Outcome:
    """Shares of all pairs.

    Attributes:
        different: of equal cells, that are called different.
        covered: whose interval holds the true ratio, where A is 1.1 × B.
        shown: of these, that are called different.
        width: half the interval's width at the median, as a share.
        mean_covered: cells whose own interval holds their true speed. Drift lies outside of what a
            cell alone can know.
    """

    different: float
    covered: float
    shown: float
    width: float
    mean_covered: float


@dataclass(frozen=True)
class Sweeps:
    """What the statistics make of sweeps of cells of known speeds.

    Attributes:
        wrong: the share of sweeps that call a cell slower than one that is not faster.
        covered: the share of sweeps in which the intervals of all pairs hold the true ratios.
        first: the same share for the pairs with the first cell.
        width: half the width of an interval at the median, as a share.
        lead: how much too high the leader's speed is over the mean of all, as a share. It is
            counted if a single leader is named.
        led: the share of sweeps that name a single leader.
    """

    wrong: float
    covered: float
    first: float
    width: float
    lead: float
    led: float


def runs(generator: np.random.Generator, repeats: int, noise: float, drift: float) -> np.ndarray:
    """Speeds of two equal cells of true speed 1, measured A B A B …, float64 [repeats, 2]."""
    return np.exp(_sweep(generator, np.zeros(2), repeats, np.full(2, noise), drift, permuted=False))


def _sweep(
    generator: np.random.Generator,
    truth: np.ndarray,
    repeats: int,
    noise: np.ndarray,
    drift: float,
    permuted: bool,
) -> np.ndarray:
    """Logarithms of the speeds of a sweep, float64 [repeats, cells].

    Args:
        truth: logarithms of the true speeds, float64 [cells].
        noise: standard deviation of each cell's own noise, float64 [cells].
        permuted: whether each round has an order of its own.
    """
    cells = len(truth)
    steps = generator.normal(0, 1, cells * repeats)
    level = steps.copy()
    for n in range(1, len(level)):
        level[n] = _MEMORY * level[n - 1] + math.sqrt(1 - _MEMORY**2) * steps[n]
    logs = truth + generator.normal(0, 1, (repeats, cells)) * noise
    logs -= _OUTLYING * (generator.random((repeats, cells)) < _OUTLIERS)
    for n in range(repeats):
        order = generator.permutation(cells) if permuted else np.arange(cells)
        logs[n, order] += drift * level[n * cells : (n + 1) * cells]
    return logs


def simulate(
    repeats: int, pairs: int, noise: float = NOISE, drift: float = DRIFT, seed: int = 0
) -> Outcome:
    """What the statistics make of so many pairs of cells."""
    generator, truth = np.random.default_rng([seed, repeats]), 1.1
    counts = np.zeros(4)
    widths = []
    for _ in range(pairs):
        a, b = runs(generator, repeats, noise, drift).T
        equal = statistics.compare(a, b, paired=True)
        faster = statistics.compare(truth * a, b, paired=True)
        own = statistics.summarise(a)
        assert faster.low and faster.high and own.low and own.high
        counts += [
            equal.different,
            faster.low <= truth <= faster.high,
            faster.different,
            own.low <= 1 <= own.high,
        ]
        widths.append(math.sqrt(faster.high / faster.low) - 1)
    different, covered, shown, mean_covered = counts / pairs
    return Outcome(different, covered, shown, float(np.median(widths)), mean_covered)


def sweeps(
    truth: Sequence[float],
    repeats: int,
    count: int,
    *,
    noise: Sequence[float] | None = None,
    before: bool = False,
    seed: int = 0,
) -> Sweeps:
    """What the statistics make of so many sweeps.

    Args:
        truth: the true speed of each cell.
        noise: of each cell; None: `NOISE` for all.
        before: the former way: a fixed order, and each cell compared with the leader by the runs of
            these two.
    """
    generator = np.random.default_rng([seed, repeats, len(truth)])
    logs = np.log(truth)
    deviations = np.full(len(truth), NOISE) if noise is None else np.array(noise)
    wrong = 0
    covered: list[bool] = []
    first: list[bool] = []
    widths: list[float] = []
    leads: list[float] = []
    for _ in range(count):
        speeds = np.exp(_sweep(generator, logs, repeats, deviations, DRIFT, permuted=not before))
        leader, second, *others = np.argsort(-np.log(speeds).mean(0)).tolist()
        ratios = _from_leader(speeds, leader) if before else _of_all(speeds)
        behind = [ratios[leader, other].different for other in (second, *others)]
        shown = {pair: ratio for pair, ratio in ratios.items() if ratio.different}
        wrong += any(_is_wrong(ratio, logs[a] - logs[b]) for (a, b), ratio in shown.items())
        held = {(a, b): _holds(ratio, truth[a] / truth[b]) for (a, b), ratio in ratios.items()}
        covered.append(all(held.values()))
        first.append(all(holds for pair, holds in held.items() if 0 in pair))
        widths += [r.spread or 0.0 for r in ratios.values()]
        if before or all(behind):
            above = np.log(speeds).mean(0) - logs
            leads.append(above[leader] - above.mean())
    lead = math.expm1(float(np.mean(leads))) if leads else math.nan
    return Sweeps(
        wrong=wrong / count,
        covered=float(np.mean(covered)),
        first=float(np.mean(first)),
        width=float(np.median(widths)),
        lead=lead,
        led=len(leads) / count,
    )


def _is_wrong(shown: statistics.Ratio, truth: float) -> bool:
    """Return whether a difference that is shown is none, or has the other sign. `truth`: the
    difference of logarithms.
    """
    return truth * math.log(shown.value) <= 1e-9


def _holds(ratio: statistics.Ratio, truth: float) -> bool:
    """Return whether the interval holds the true ratio."""
    return ratio.low is not None and ratio.high is not None and ratio.low <= truth <= ratio.high


def _of_all(speeds: np.ndarray) -> dict[tuple[int, int], statistics.Ratio]:
    """The ratios of all pairs, in both directions, from their common noise."""
    cells = range(speeds.shape[1])
    series: dict[str, Rounds] = {str(n): dict(enumerate(speeds[:, n])) for n in cells}
    pooled = Pooled(series=series, compared=len(cells))
    pairs = permutations(cells, 2)
    found = {(a, b): pooled.ratio(str(a), str(b)) for a, b in pairs}
    return {pair: ratio for pair, ratio in found.items() if ratio}


def _from_leader(speeds: np.ndarray, leader: int) -> dict[tuple[int, int], statistics.Ratio]:
    """The ratios of the leader to each other cell, each from the runs of these two."""
    columns = speeds.T.tolist()
    found = {}
    for n, column in enumerate(columns):
        if n != leader:
            found[leader, n] = statistics.compare(columns[leader], column, paired=True)
    return found


CASES = {
    "12 equal": ([1.0] * 12, None),
    "6 equal": ([1.0] * 6, None),
    "12 equal, the first with 5 × the noise": ([1.0] * 12, [5 * NOISE, *[NOISE] * 11]),
    "one 1.1 × as fast as 11 equal ones": ([1.1, *[1.0] * 11], None),
    "12 in steps of 5 %": ([1.05**-n for n in range(12)], None),
}
"""Name → true speeds, and noise of each cell (None: `NOISE`)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--sweeps", type=int, default=2000)
    flags = parser.parse_args()
    print(
        f"noise {NOISE:.1%}, drift {DRIFT:.1%}, {_OUTLIERS:.0%} of the runs 30 % slower;"
        f" {flags.pairs} pairs, {flags.sweeps} sweeps"
    )
    print(
        "repeats  equal pairs called different  ratio's interval holds  1.1 × is shown  half width "
        " a cell's own interval holds"
    )
    for repeats in REPEATS:
        o = simulate(repeats, flags.pairs)
        print(
            f"{repeats:7}  {o.different:28.1%}  {o.covered:22.1%}  {o.shown:14.1%}  {o.width:10.1%}"
            f"  {o.mean_covered:27.1%}"
        )
    columns = (
        "wrongly called slower",
        "all intervals hold",
        "of the first",
        "half width",
        "one leader named",
        "lead too high",
    )
    print(f"\n{'cells':<40}repeats          {'  '.join(columns)}")
    for name, (truth, noise) in CASES.items():
        for repeats in (3, 5):
            for before in (True, False):
                s = sweeps(truth, repeats, flags.sweeps, noise=noise, before=before)
                when = "before" if before else "now"
                numbers = (
                    f"{s.wrong:21.1%}  {s.covered:18.1%}  {s.first:12.1%}  {s.width:10.1%} "
                    f" {s.led:16.1%}  {s.lead:13.1%}".replace("nan%", "   –")
                )
                print(f"{name:<40}{repeats:7}  {when:<8}{numbers}", flush=True)


if __name__ == "__main__":
    main()
