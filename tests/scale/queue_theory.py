"""This program compares Server with arithmetic, on the mock, whose batches take a fixed time.

    PYTHONPATH=. .cache/environments/core/bin/python -P -m tests.scale.queue_theory [--runs N] [--seconds S]

First, batches of one: the mean wait in the queue against that of an M/D/1 queue (Pollaczek and
Khinchine: load × time / (2 × (1 - load))), and against LoadGen's own arrivals. Second, batches of
up to eight: the rate that is found, against the rate that follows from the same arrivals.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from compliance import rules
from scenarios.worker.rate_search import LEAST_REQUESTS, allowed, arrivals

_ROOT = Path(__file__).parents[2]
_BATCH_MS, _LARGEST, _LIMIT_MS, _PERCENTILE = 5.0, 8, 50.0, 90.0
_STEP = 1.01
"""The ratio of neighbouring rates for which the second table is computed."""


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0)
    flags = parser.parse_args()
    seed = rules.load().seeds["schedule_rng_seed"]
    print("| load | mean wait, M/D/1 | by LoadGen's arrivals | measured |\n|---|---|---|---|")
    for load in (0.3, 0.5, 0.7, 0.8):
        print(_wait_row(load, flags.seconds, seed))
    expected = _highest(flags.seconds, seed)
    found = []
    for run in range(flags.runs):
        limit = ("--max-latency-ms", f"{_LIMIT_MS:g}", "--batch-size", f"{_LARGEST}")
        result = _measured(flags.seconds, *limit)
        found.append(result["metric"]["value"])
        print(f"run {run + 1}: {found[-1]:.1f} requests/s of {expected:.1f} by arithmetic")
    ratios = [value / expected for value in found]
    print(f"ratio: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")


def _wait_row(load: float, seconds: float, seed: int) -> str:
    rate = load / _BATCH_MS * 1e3
    theory_ms = load * _BATCH_MS / (2 * (1 - load))
    due_ms = arrivals(rate, math.ceil(rate * seconds), seed) / 1e6
    computed_ms = float(np.mean(_latencies_ms(due_ms, 1))) - _BATCH_MS
    result = _measured(seconds, "--batch-size", "1", "--rate", f"{rate:g}")
    measured_ms = result["metrics"]["latency_mean_ms"] - _BATCH_MS
    return f"| {load} | {theory_ms:.2f} ms | {computed_ms:.2f} ms | {measured_ms:.2f} ms |"


def _latencies_ms(due_ms: np.ndarray, largest: int) -> np.ndarray:
    """Return the latency of each request, if the server takes all that wait, at most `largest`."""
    done = np.zeros(len(due_ms))
    free, first = 0.0, 0
    while first < len(due_ms):
        begin = max(free, due_ms[first])
        end = min(int(np.searchsorted(due_ms, begin, side="right")), first + largest)
        free = begin + _BATCH_MS
        done[first:end] = free
        first = end
    return done - due_ms


def _highest(seconds: float, seed: int) -> float:
    """Return the highest rate at which as few requests are late as LoadGen allows."""
    rate = _LARGEST / _BATCH_MS * 1e3
    while True:
        count = max(LEAST_REQUESTS[_PERCENTILE], math.ceil(rate * seconds))
        due_ms = arrivals(rate, count, seed) / 1e6
        latencies_ms = _latencies_ms(due_ms, _LARGEST)
        late = int(np.sum(latencies_ms > _LIMIT_MS))
        left = int(np.sum(due_ms + latencies_ms > due_ms[-1]))
        kept_up = left <= max(2 * _LARGEST, 0.05 * count)
        if kept_up and late <= allowed(count, _PERCENTILE / 100):
            return rate
        rate /= _STEP


def _measured(seconds: float, *flags: str) -> dict[str, Any]:
    command = ("--sut", "mock", "--scenario", "Server", "--model", "bert", "--size", "tiny")
    script = ("--sut-option", f"latency-ms={_BATCH_MS:g}", "--duration", f"{seconds:g}", "--json")
    with tempfile.TemporaryDirectory() as out:
        process = subprocess.run(
            [_ROOT / "run.sh", *command, *script, *flags, "--out", out],
            capture_output=True,
            text=True,
            check=False,
        )
    (cell,) = json.loads(process.stdout)["cells"]
    return dict(cell)


if __name__ == "__main__":
    main()
