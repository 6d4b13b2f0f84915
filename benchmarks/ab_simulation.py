"""This benchmark counts how often the harness' statistics are right, on pairs of simulated cells with the noise of a shared machine.

    PYTHONPATH=. .cache/environments/core/bin/python -P benchmarks/ab_simulation.py [--comparisons N] [--noise 0.02] [--drift 0.03]

The first `./run.sh list` makes that environment. The speed of a run is the true speed of its cell, times noise of its own, times a drift
that all cells share (an autoregressive process, 0.8 from one run to the next). 3 % of the runs take 30 % longer. Repeats are interleaved:
A B A B. The table says how many pairs of equal cells are called different, and how many intervals hold the truth.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import numpy as np

from harness.comparison import statistics

REPEATS = (3, 5, 6, 10)
_MEMORY, _OUTLIERS, _OUTLYING = 0.8, 0.03, math.log(1.3)


@dataclass(frozen=True)
class Outcome:
    """Shares of all comparisons.

    Attributes:
        different: of equal cells, that are called different.
        covered: whose interval holds the true ratio, where A is 1.1 × B.
        shown: of these, that are called different.
        width: half the interval's width at the median, as a share.
        mean_covered: cells whose own interval holds their true speed. Drift lies outside of what a cell alone can know.
    """

    different: float
    covered: float
    shown: float
    width: float
    mean_covered: float


def runs(generator: np.random.Generator, repeats: int, noise: float, drift: float) -> np.ndarray:
    """Speeds of two equal cells of true speed 1, measured A B A B …, float64 [repeats, 2]."""
    count = 2 * repeats
    steps = generator.normal(0, 1, count)
    level = steps.copy()
    for n in range(1, count):
        level[n] = _MEMORY * level[n - 1] + math.sqrt(1 - _MEMORY**2) * steps[n]
    logs = drift * level + generator.normal(0, noise, count) - _OUTLYING * (generator.random(count) < _OUTLIERS)
    return np.exp(logs).reshape(repeats, 2)


def simulate(repeats: int, comparisons: int, noise: float, drift: float, seed: int = 0) -> Outcome:
    """What the statistics make of so many pairs of cells."""
    generator, truth = np.random.default_rng([seed, repeats]), 1.1
    counts = np.zeros(4)
    widths = []
    for _ in range(comparisons):
        a, b = runs(generator, repeats, noise, drift).T
        equal = statistics.compare(a, b, paired=True)
        faster = statistics.compare(truth * a, b, paired=True)
        own = statistics.summarise(a)
        assert faster.low and faster.high and own.low and own.high
        counts += [equal.different, faster.low <= truth <= faster.high, faster.different, own.low <= 1 <= own.high]
        widths.append(math.sqrt(faster.high / faster.low) - 1)
    different, covered, shown, mean_covered = counts / comparisons
    return Outcome(different, covered, shown, float(np.median(widths)), mean_covered)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--comparisons", type=int, default=4000)
    parser.add_argument("--noise", type=float, default=0.02, help="of each run alone, as a share (default 0.02)")
    parser.add_argument("--drift", type=float, default=0.03, help="that all cells share, as a share (default 0.03)")
    flags = parser.parse_args()
    print(
        f"{flags.comparisons} comparisons each; noise {flags.noise:.1%}, drift {flags.drift:.1%}, {_OUTLIERS:.0%} of the runs 30 % slower"
    )
    print("repeats  equal pairs called different  ratio's interval holds  1.1 × is shown  half width  a cell's own interval holds")
    for repeats in REPEATS:
        o = simulate(repeats, flags.comparisons, flags.noise, flags.drift)
        print(f"{repeats:7}  {o.different:28.1%}  {o.covered:22.1%}  {o.shown:14.1%}  {o.width:10.1%}  {o.mean_covered:27.1%}")


if __name__ == "__main__":
    main()
