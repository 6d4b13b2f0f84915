"""The samples whose answers LoadGen logs in a compliance test.

Source of the choice: loadgen/loadgen.cc (IssueQueries, SampleComplete), loadgen/issue_query_controller.h (SequenceGen) and libstdc++'s
generate_canonical: a number between 0 and 1 belongs to each sample, drawn by std::mt19937 of its default seed; moved by an offset, drawn
from accuracy_log_rng_seed, it is logged where it is at most sampling_target / expected samples.
"""

from __future__ import annotations

import numpy as np

from compliance.loadgen import counts
from compliance.loadgen.random import canonical, mersenne_twister
from compliance.logs import Detail

_DEFAULT_SEED = 5489
_BLOCK = 1 << 20


def expected(detail: Detail, scenario: str) -> tuple[int, float] | None:
    """(samples issued, the share of them that is logged); None: a setting is missing."""
    count = counts.samples(detail, scenario)
    keys = ("effective_accuracy_log_sampling_target", "effective_min_duration_ms", "effective_min_sample_count")
    target, duration_ms, least = (detail.number(key) for key in keys)
    # Rate and expected latency are logged with six digits.
    name = {"SingleStream": "single_stream", "MultiStream": "multi_stream"}.get(scenario)
    latency_ns = detail.number(f"requested_{name}_expected_latency_ns")
    rate = detail.number("effective_target_qps") if name is None else 1e9 / latency_ns if latency_ns else None
    if count is None or target is None or duration_ms is None or least is None or rate is None or not 0 < count < 1 << 40:
        return None
    if not abs(rate * duration_ms) < 1e300:
        return None
    samples = max(int(rate * duration_ms / 1000) * counts.samples_per_query(detail, scenario), least)
    return int(count), (target / samples if samples > 0 else 0.0)


def chosen(count: int, share: float, seed: int) -> np.ndarray:
    """The numbers of the samples LoadGen logs, of the first `count`, int64, ascending."""
    draws = mersenne_twister(_DEFAULT_SEED)
    offset = float(canonical(mersenne_twister(seed), 1)[0])
    found = []
    for start in range(0, count, _BLOCK):
        moved = canonical(draws, min(_BLOCK, count - start)) + offset
        found.append(start + np.flatnonzero(np.where(moved < 1.0, moved, moved - 1.0) <= share))
    return np.concatenate([np.empty(0, np.int64), *found])
