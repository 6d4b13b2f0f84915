"""Computes which samples' answers LoadGen logs in a compliance test. All functions are pure.

Each sample has a number between 0 and 1, drawn by std::mt19937 with its default seed. An offset,
drawn from accuracy_log_rng_seed, is added to all numbers, modulo 1. The answer is logged if the
number is at most the selection rate.

Sources: loadgen/loadgen.cc (IssueQueries, SampleComplete), loadgen/issue_query_controller.h
(SequenceGen) and libstdc++'s generate_canonical.
"""

from __future__ import annotations

import numpy as np

from compliance.loadgen.log import Log
from compliance.loadgen.random import canonical, joined, mersenne_twister

_DEFAULT_SEED = 5489
_BLOCK = 1 << 16


def selection_rate(log: Log) -> tuple[int, float] | None:
    """(samples issued, the share of them whose answers are logged); None if a setting is missing.

    LoadGen divides accuracy_log_sampling_target by the samples it expects from the minimum duration
    and the target rate.
    """
    count = log.samples
    keys = (
        "effective_accuracy_log_sampling_target",
        "effective_min_duration_ms",
        "effective_min_sample_count",
    )
    target, duration_ms, min_samples = (log.number(key) for key in keys)
    # Rate and expected latency are logged with six digits.
    name = {"SingleStream": "single_stream", "MultiStream": "multi_stream"}.get(log.scenario)
    latency_ns = log.number(f"requested_{name}_expected_latency_ns")
    rate = log.number("effective_target_qps")
    if name:
        rate = 1e9 / latency_ns if latency_ns else None
    if count is None or target is None or duration_ms is None or min_samples is None:
        return None
    if rate is None or not 0 < count < 1 << 40 or not abs(rate * duration_ms) < 1e300:
        return None
    samples = max(int(rate * duration_ms / 1000) * log.per_query, min_samples)
    return int(count), (target / samples if samples > 0 else 0.0)


def selected_samples(count: int, rate: float, seed: int) -> np.ndarray:
    """The sequence numbers, among the first `count`, of the samples whose answers LoadGen logs,
    int64, ascending.

    Args:
        rate: see `selection_rate`.
        seed: accuracy_log_rng_seed.
    """
    draws = mersenne_twister(_DEFAULT_SEED)
    offset = float(canonical(mersenne_twister(seed), 1)[0])
    selected = []
    # The upper half of a number shows roughly whether it is selected. The rest is left out first,
    # because a test may have millions of samples and log a hundred answers.
    least = int((1.0 - offset) * 2**32) - 2
    span = int(min(max(rate, 0.0), 1.0) * 2**32) + 4
    for start in range(0, count, _BLOCK):
        raw = draws.random_raw(2 * min(_BLOCK, count - start))
        ahead = (raw[1::2].astype(np.uint32) - np.uint32(least % 2**32)).astype(np.uint32)
        places = np.flatnonzero(ahead <= min(span, 2**32 - 1))
        moved = joined(raw.reshape(-1, 2)[places].ravel()) + offset
        moved = np.where(moved < 1.0, moved, moved - 1.0)
        selected.append(start + places[moved <= rate])
    return np.concatenate([np.empty(0, np.int64), *selected])
