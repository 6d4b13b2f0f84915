"""The queries LoadGen generates before a test: how many, and when each is due. Pure.

Sources: loadgen/loadgen.cc (GenerateQueries, ScheduleDistribution), libstdc++ bits/random.tcc (generate_canonical) and bits/random.h
(exponential_distribution).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compliance.loadgen.random import MOST_SAMPLES, canonical, mersenne_twister
from compliance.logs import Detail

_BLOCK = 1 << 16
# A query in a thousand seconds; more than anything answers; three years: within them no time is too large for an int64.
_SLOWEST, _FASTEST, _LONGEST_NS = 1e-3, 1e12, 10**17


@dataclass(frozen=True)
class Demand:
    """What a performance test is generated for.

    Attributes:
        least: effective_min_query_count.
        duration_ns: effective_min_duration.
        whole: of equal issue, the size of the loaded set, which the count is a multiple of; 1 without.
    """

    least: int
    duration_ns: int
    whole: int = 1

    def count(self, long_enough: int) -> int:
        """Of queries, where so many are the first whose last one is due at or after the duration."""
        return -(-max(self.least, long_enough) // self.whole) * self.whole


def demand(detail: Detail) -> Demand | None:
    """None: a setting is missing."""
    (least, duration_ms), loaded = (
        (detail.get(f"effective_min_{key}") for key in ("query_count", "duration_ms")),
        detail.get("loaded_qsl_set"),
    )
    if type(least) is not int or type(duration_ms) is not int or min(least, duration_ms) < 0 or not isinstance(loaded, list):
        return None
    whole = max(len(loaded), 1) if detail.get("effective_sample_concatenate_permutation") is True else 1
    return Demand(least, duration_ms * 1_000_000, whole)


def period_ns(expected_latency_ns: float) -> int:
    """Between two queries of SingleStream and MultiStream; the latency is above zero."""
    return int(1.0 / (1e9 / expected_latency_ns) * 1e9)


def stream(demand: Demand, period: int) -> int | None:
    """How many queries SingleStream and MultiStream prepare: of twice the duration, as many as the expected latency makes."""
    if period <= 0:
        return None
    return demand.count(-(-2 * demand.duration_ns // period) + 1)


def server(demand: Demand, rate: float, seed: int) -> np.ndarray | None:
    """When each query of Server is due, in nanoseconds from the start, and when one more would be: int64 [count + 1].

    A Poisson process: the times between are drawn from an exponential distribution and cut to whole nanoseconds. None: too many to tell.
    """
    least = demand.least + demand.whole
    if not _SLOWEST < rate < _FASTEST or demand.duration_ns > _LONGEST_NS or least / rate > _LONGEST_NS / 1e9:
        return None
    if max(least, rate * demand.duration_ns / 1e9) > MOST_SAMPLES / 2:
        return None
    draws = mersenne_twister(seed)
    due, count = np.zeros(1, np.int64), None
    while count is None or len(due) <= count:
        gaps = (-np.log(1.0 - canonical(draws, max(_BLOCK, len(due)))) / rate * 1e9).astype(np.int64)
        due = np.concatenate([due, due[-1] + np.cumsum(gaps)])
        if count is None and due[-1] >= demand.duration_ns:
            count = demand.count(int(np.searchsorted(due, demand.duration_ns)) + 1)
    return due[: count + 1]


def due(detail: Detail, rate: float) -> np.ndarray | None:
    """When each query of Server is due at so many a second, see `server`; None: a setting is missing, or too many to tell."""
    asked, seed = demand(detail), detail.get("effective_schedule_rng_seed")
    if asked is None or type(seed) is not int or seed < 0:
        return None
    return server(asked, rate, seed)
