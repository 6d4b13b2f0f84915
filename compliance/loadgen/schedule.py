"""The queries that LoadGen generates before a performance test: how many, and when each query of
Server is due. All functions are pure.

Sources: loadgen/loadgen.cc (GenerateQueries, ScheduleDistribution), libstdc++ bits/random.tcc
(generate_canonical) and bits/random.h (exponential_distribution).
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass

import numpy as np

from compliance.loadgen.random import MOST_SAMPLES, canonical, mersenne_twister
from compliance.logs import Detail
from compliance.logs.entry import LOADED_SET

_BLOCK = 1 << 14  # queries that are computed at once: their numbers fit into a processor's cache
# The limits are a query in a thousand seconds, more queries than anything answers, and three years.
# Within them every time fits into an int64.
_SLOWEST, _FASTEST, _LONGEST_NS = 1e-3, 1e12, 10**17


@dataclass(frozen=True)
class Demand:
    """The requirements on the generated queries.

    Attributes:
        min_queries: effective_min_query_count.
        duration_ns: effective_min_duration. A negative one is 0.
        multiple_of: equal issue rounds the count up to a multiple of the loaded set's size; 1
            without equal issue.
    """

    min_queries: int
    duration_ns: int
    multiple_of: int = 1

    def count(self, long_enough: int) -> int:
        """The number of queries to generate.

        Args:
            long_enough: the smallest number of queries whose last one is due at or after the
                minimum duration.
        """
        return -(-max(self.min_queries, long_enough) // self.multiple_of) * self.multiple_of


def demand(detail: Detail) -> Demand | None:
    """The demand in a detail log; None if a setting is missing."""
    min_queries = detail.get("effective_min_query_count")
    duration_ms = detail.get("effective_min_duration_ms")
    loaded = detail.get(LOADED_SET)
    if type(min_queries) is not int or type(duration_ms) is not int:
        return None
    if min_queries < 0 or not isinstance(loaded, array | list):
        return None
    multiple_of = 1
    if detail.get("effective_sample_concatenate_permutation") is True:
        multiple_of = max(len(loaded), 1)
    return Demand(min_queries, max(duration_ms, 0) * 1_000_000, multiple_of)


def period_ns(expected_latency_ns: float) -> int:
    """The time between two queries of SingleStream and MultiStream, in nanoseconds. The expected
    latency must be above zero.
    """
    return int(1.0 / (1e9 / expected_latency_ns) * 1e9)


def stream(demand: Demand, period: int) -> int | None:
    """Compute how many queries SingleStream and MultiStream generate: enough for twice the minimum
    duration at the expected latency.

    Args:
        period: see `period_ns`.

    None if `period` is not above 0.
    """
    if period <= 0:
        return None
    return demand.count(-(-2 * demand.duration_ns // period) + 1)


def server(demand: Demand, rate: float, seed: int) -> np.ndarray | None:
    """When each query of Server is due, and when one more would be, in nanoseconds from the start,
    int64 [queries + 1].

    Arrivals are a Poisson process: the times between them are drawn from an exponential
    distribution and cut to whole nanoseconds.

    Args:
        rate: queries a second.
        seed: schedule_rng_seed.

    None if there are too many queries to compute.
    """
    min_queries = demand.min_queries + demand.multiple_of
    if not _SLOWEST < rate < _FASTEST or demand.duration_ns > _LONGEST_NS:
        return None
    if min_queries / rate > _LONGEST_NS / 1e9:
        return None
    if max(min_queries, rate * demand.duration_ns / 1e9) > MOST_SAMPLES / 2:
        return None
    draws = mersenne_twister(seed)
    blocks, due, total, count = [], np.zeros(1, np.int64), 0, None
    while count is None or total <= count:
        if count is None and due[-1] >= demand.duration_ns:
            count = demand.count(total + int(np.searchsorted(due, demand.duration_ns)) + 1)
        blocks.append(due)
        total += len(due)
        gaps_ns = np.log(1.0 - canonical(draws, _BLOCK)) / -rate * 1e9
        due = due[-1] + np.cumsum(gaps_ns.astype(np.int64))
    return np.concatenate(blocks)[: count + 1]


def about(rate: float, duration_ms: float) -> float:
    """How many queries of Server are due in a time on average. Each time between two of them is cut
    to whole nanoseconds, so there are more than `rate` says: 0.03 % at 650,000 queries a second.
    """
    return duration_ms * 1e6 * math.expm1(min(rate / 1e9, 1.0))


def due(detail: Detail, rate: float) -> np.ndarray | None:
    """When each query of Server is due at `rate` queries a second, see `server`. None if a setting
    is missing, or there are too many queries.
    """
    limits, seed = demand(detail), detail.get("effective_schedule_rng_seed")
    if limits is None or type(seed) is not int or seed < 0:
        return None
    return server(limits, rate, seed)
