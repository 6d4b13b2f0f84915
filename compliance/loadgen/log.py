"""The detail log of a test, and what LoadGen computes from its figures (loadgen/results.cc):
counts, durations, latencies over their limits, rates, and the parts of the verdict.

Nothing here reads a file. A value is None if a figure is missing.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from compliance.loadgen import early_stopping, sample_order
from compliance.loadgen.latency_keys import (
    FIRST_TOKENS,
    LATER_TOKENS,
    QUERIES,
    SAMPLES,
    LatencyKeys,
)
from compliance.loadgen.random import Draws
from compliance.loadgen.sample_order import IssueSettings
from compliance.logs import Detail
from compliance.logs.dates import wall_seconds
from compliance.logs.digits import DIGITS
from compliance.logs.entry import LOADED_SET
from compliance.rules import Rules

T = TypeVar("T", array, list)
# Far more samples than any query has.
_MOST_PER_QUERY = 1 << 16
_LARGEST_INDEX = 1 << 40
# The uncertainty of the difference of two dates that are logged in whole milliseconds.
_CALENDAR_NS = 2e6


@dataclass(frozen=True, kw_only=True)
class Log(Detail):
    """The detail log of a test of one of LoadGen's four scenarios."""

    scenario: str
    rules: Rules

    @classmethod
    def of(cls, detail: Detail, scenario: str, rules: Rules) -> Log:
        """The same log, with the rules that judge it."""
        return cls(**vars(detail), scenario=scenario, rules=rules)

    @property
    def per_query(self) -> int:
        """The number of samples of one query. In MultiStream there are several, which are
        neighbours in the loaded set. In the other scenarios it is 1.
        """
        count = self.get("effective_samples_per_query")
        if self.scenario != "MultiStream" or type(count) is not int:
            return 1
        return count if 0 < count <= _MOST_PER_QUERY else 1

    @property
    def samples(self) -> float | None:
        """The number of samples that a performance test issued."""
        if self.scenario == "Offline":
            return self.number("generated_samples_per_query")
        queries = self.number("result_query_count")
        return None if queries is None else queries * self.per_query

    def batches(self, batch_size: object) -> tuple[int | None, int | None]:
        """(samples, batches) of a performance test; (None, None) if the log has no count, or
        `batch_size` is no valid size.
        """
        count = self.samples
        if count is None or not 0 < count < 1 << 53 or type(batch_size) is not int:
            return None, None
        return (int(count), -(-int(count) // batch_size)) if batch_size > 0 else (None, None)

    @property
    def sets(self) -> list[array] | None:
        """The sets that LoadGen loaded, as arrays of sample indices. None if one is no such list,
        or shorter than a query.
        """
        sets = self.all(LOADED_SET)
        for one in sets:
            if not isinstance(one, array) or len(one) < self.per_query:
                return None
            if len(one) and np.asarray(one).max() >= _LARGEST_INDEX:
                return None
        return sets or None

    def once(self, loaded: T) -> T:
        """A loaded set with each sample once. MultiStream repeats the first samples after the last
        one (GenerateLoadableSets).
        """
        again = self.per_query - 1
        return loaded[: len(loaded) - again] if again else loaded

    def accuracy_samples(self, sets: Sequence[array]) -> int:
        """The number of samples that an accuracy test issues: each one once, and in MultiStream
        more of them, to fill up the last query of each of the loaded `sets`.
        """
        per_query = self.per_query
        return sum(-(-len(self.once(one)) // per_query) * per_query for one in sets)

    def issue_settings(self, seed: int) -> IssueSettings:
        """The settings that decide the order of its samples. `seed`: sample_index_rng_seed."""
        return IssueSettings(
            scenario=self.scenario,
            equal_issue=self.equal_issue,
            seed=seed,
            per_query=self.per_query,
        )

    def performance_order(self, count: int) -> Callable[[Draws], np.ndarray] | None:
        """How the indices of a performance test's first `count` samples follow from its seeds; None
        if its loaded set, effective_min_query_count or the seed is missing.
        """
        sets = self.sets
        seed = self.seed("sample_index_rng_seed")
        least = self.get("effective_min_query_count")
        if sets is None or seed is None or type(least) is not int:
            return None
        return partial(
            sample_order.performance,
            self.issue_settings(seed),
            sets[0],
            count=count,
            min_query_count=sample_order.bounded(max(least, 1), count),
        )

    @property
    def queries(self) -> int | None:
        """The number of queries, if it is one that can be computed with."""
        count = self.number("result_query_count")
        return (
            int(count) if count is not None and 0 < count <= early_stopping.MOST_QUERIES else None
        )

    @property
    def equal_issue(self) -> bool:
        """Whether every loaded sample is issued equally often."""
        return self.get("effective_sample_concatenate_permutation") is True

    @property
    def percentile(self) -> float:
        """The percentile of the latencies that LoadGen judged, in percent; that of the round if the
        log names none.
        """
        logged = self.number("effective_target_latency_percentile")
        of_round = self.rules.scenarios[self.scenario].percentile
        return of_round if logged is None else round(100 * logged, 4)

    @property
    def limited(self) -> tuple[LatencyKeys, ...]:
        """The kinds of latency that have a limit and early stopping: those of the tokens if LoadGen
        measured them, else those of the samples.
        """
        return (FIRST_TOKENS, LATER_TOKENS) if self.has_tokens else (SAMPLES,)

    @property
    def estimated(self) -> LatencyKeys:
        """The kind of latency that early stopping estimates."""
        return QUERIES if self.scenario == "MultiStream" else self.limited[0]

    @property
    def estimates(self) -> Mapping[str, float]:
        """Key of each of LoadGen's estimates → its percentile in percent.

        SingleStream also has the 99th percentile, because MultiStream may be inferred from it.
        """
        found = {}
        if self.scenario == "SingleStream":
            found = {"early_stopping_latency_ss": self.percentile}
            found["early_stopping_latency_ms"] = 99.0
        elif self.scenario == "MultiStream":
            found = {"early_stopping_latency_ms": self.percentile}
        return MappingProxyType(found)

    @property
    def last_issue_ns(self) -> tuple[float, float] | None:
        """The lower and the upper bound of the duration that LoadGen compares with min_duration, in
        nanoseconds from the test's start (MinDurationMet).

        Offline: the largest latency. SingleStream and Server: the time until the last query was
        issued or due, which follows from the rate and its six digits. MultiStream logs no rate. Its
        last query is answered when the test ends, and the calendar gives that time to the
        millisecond.
        """
        if self.scenario == "Offline":
            largest = self.number("result_max_latency_ns")
            return None if largest is None else (largest, largest)
        if self.scenario == "MultiStream":
            shortest = self.number(QUERIES.minimum)
            longest = self.number(QUERIES.maximum)
            wall_s = wall_seconds(self)
            if wall_s is None or shortest is None or longest is None:
                return None
            return wall_s * 1e9 - longest - _CALENDAR_NS, wall_s * 1e9 - shortest + _CALENDAR_NS
        key = "result_qps_with_loadgen_overhead"
        if self.scenario == "Server":
            key = "result_scheduled_samples_per_sec"
        count = self.number("result_query_count")
        rate = self.number(key)
        if not count or not rate or rate < 0:
            return None
        duration_ns = (count - 1) * 1e9 / rate
        return duration_ns * (1 - DIGITS), duration_ns * (1 + DIGITS)

    @property
    def one_by_one_ns(self) -> float:
        """The sum of all latencies in nanoseconds, if one query follows the other (SingleStream,
        MultiStream); else 0.
        """
        mean = {"SingleStream": SAMPLES.mean, "MultiStream": QUERIES.mean}.get(self.scenario, "")
        return (self.number("result_query_count") or 0) * (self.number(mean) or 0)

    @property
    def min_duration_met(self) -> bool | None:
        """Whether the test was as long as its settings require. None if the log is too imprecise to
        decide.
        """
        passed = self.last_issue_ns
        min_ms = self.number("effective_min_duration_ms")
        if passed is None or min_ms is None or passed[0] < min_ms * 1e6 <= passed[1]:
            return None
        return passed[0] >= min_ms * 1e6

    @property
    def min_queries_met(self) -> bool | None:
        """Whether the test issued at least the queries and samples that its settings require."""
        queries = self.number("result_query_count")
        issued = self.samples
        min_queries = self.number("effective_min_query_count")
        min_samples = self.number("effective_min_sample_count")
        if queries is None or issued is None or min_queries is None or min_samples is None:
            return None
        return queries >= min_queries and issued >= min_samples

    @property
    def constraints_met(self) -> bool | None:
        """Whether the percentile of each latency that has a limit is within it
        (PerfConstraintsMet).
        """
        return _all([self.within(latency) for latency in self.limited])

    @property
    def early_stopping_met(self) -> bool | None:
        """Whether the test has enough queries for early stopping. None if the log's figures do not
        decide it.
        """
        if self.scenario == "Offline":
            return True
        if self.queries is None:
            return None
        if self.scenario == "Server":
            return _all([self.limit_held(latency) for latency in self.limited])
        share = self.percentile / 100
        return early_stopping.discards(self.queries, share, self.rules) is not None

    def limit_held(self, latency: LatencyKeys) -> bool | None:
        """Whether early stopping finds a latency within its limit. None if the log does not decide
        it.
        """
        over = self.over(latency)
        share = self.percentile / 100
        queries = self.queries
        if over is None or queries is None:
            return None
        least, most = over
        if early_stopping.enough(queries, most, share, self.rules):
            return True
        return None if early_stopping.enough(queries, least, share, self.rules) else False

    def within(self, latency: LatencyKeys) -> bool | None:
        """Whether the percentile of a latency is within its limit. If LoadGen does not log the
        percentile, the number of queries over the limit may show it.
        """
        value = self.number(latency.percentile.format(f"{self.percentile:.2f}"))
        limit = self.number(latency.limit)
        if limit is not None and value is not None:
            return value <= limit
        over = self.over(latency)
        queries = self.number("result_query_count") or 0
        if over is None:
            return None
        share = self.percentile * 0.01  # as LoadGen computes it
        allowed = queries - int(queries * share) - 1
        if over[1] <= allowed:
            return True
        return False if over[0] > allowed else None

    def over(self, latency: LatencyKeys) -> tuple[int, int] | None:
        """The lower and the upper bound of the number of queries over the limit.

        LoadGen counts these queries for plain latencies. For tokens the percentiles bound their
        number.
        """
        queries = self.queries
        limit = self.number(latency.limit)
        if queries is None or limit is None:
            return None
        counted = self.get("result_overlatency_query_count")
        if latency is SAMPLES and type(counted) is int and 0 <= counted <= queries:
            return counted, counted
        return self.over_by_percentiles(latency, limit)

    def over_by_percentiles(self, latency: LatencyKeys, limit: float) -> tuple[int, int]:
        """The lower and the upper bound of the number of queries over `limit`, from minimum,
        percentiles and maximum.
        """
        queries = self.queries or 0
        at_least = 0
        at_most = queries
        for _, share, value in latency.percentiles(self):
            position = min(int(queries * share), queries - 1)
            if value > limit:
                at_least = max(at_least, queries - position)
            else:
                at_most = min(at_most, queries - position - 1)
        return at_least, at_most


def _all(parts: list[bool | None]) -> bool | None:
    """Whether all parts are true; None if that is not known."""
    if False in parts:
        return False
    return None if None in parts else True
