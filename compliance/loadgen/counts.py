"""Reads the counts of a detail log: queries, samples and batches of a test, its loaded sets and its
seeds.

All functions are pure.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from compliance.loadgen import sample_order
from compliance.loadgen.random import Draws
from compliance.loadgen.sample_order import IssueSettings
from compliance.logs import Detail
from compliance.logs.entry import LOADED_SET

T = TypeVar("T", array, list)
# Far more samples than any query has.
_MOST_PER_QUERY = 1 << 16
_LARGEST_INDEX = 1 << 40


def samples_per_query(detail: Detail, scenario: str) -> int:
    """The number of samples of one query. In MultiStream there are several, which are neighbours in
    the loaded set. In the other scenarios it is 1.
    """
    count = detail.get("effective_samples_per_query")
    if scenario != "MultiStream" or type(count) is not int:
        return 1
    return count if 0 < count <= _MOST_PER_QUERY else 1


def samples(detail: Detail, scenario: str) -> float | None:
    """The number of samples that a performance test issued; None if the log has no count."""
    if scenario == "Offline":
        return detail.number("generated_samples_per_query")
    queries = detail.number("result_query_count")
    return None if queries is None else queries * samples_per_query(detail, scenario)


def loaded_samples(detail: Detail, test: str = "performance") -> float | None:
    """The number of samples that a test loads: performance_sample_count or accuracy_sample_count,
    but no more than the library has. None if the log does not have both.
    """
    count = detail.number(f"effective_{test}_sample_count")
    total = detail.number("qsl_reported_total_count")
    return None if count is None or total is None else min(count, total)


def has_token_latencies(detail: Detail) -> bool:
    """Return whether LoadGen was set to measure the latency of the first token and of each later
    one.
    """
    return detail.get("requested_use_token_latencies") is True


def without_wraparound(loaded: T, detail: Detail, scenario: str) -> T:
    """A loaded set with each sample once. MultiStream repeats the first samples after the last one
    (GenerateLoadableSets).
    """
    again = samples_per_query(detail, scenario) - 1
    return loaded[: len(loaded) - again] if again else loaded


def logged_sets(detail: Detail, scenario: str) -> list[array] | None:
    """The sets that LoadGen loaded, as arrays of sample indices. None if one is no such list, or
    shorter than a query.
    """
    sets = detail.all(LOADED_SET)
    shortest = samples_per_query(detail, scenario)
    for one in sets:
        if not isinstance(one, array) or len(one) < shortest:
            return None
        if len(one) and np.asarray(one).max() >= _LARGEST_INDEX:
            return None
    return sets or None


def accuracy_samples(sets: Sequence[array], detail: Detail, scenario: str) -> int:
    """The number of samples that an accuracy test issues: each one once, and in MultiStream more of
    them, to fill up the last query of each set.

    Args:
        sets: the loaded sets.
    """
    per_query = samples_per_query(detail, scenario)
    sizes = [len(without_wraparound(one, detail, scenario)) for one in sets]
    return sum(-(-size // per_query) * per_query for size in sizes)


def logged_count(detail: Detail, key: str, at_most: int = 1 << 32) -> int | None:
    """The count under `key`; None if it is no integer from 1 to `at_most`."""
    value = detail.get(key)
    return value if type(value) is int and 0 < value <= at_most else None


def logged_seed(detail: Detail, key: str) -> int | None:
    """The effective seed, for example `qsl_rng_seed`; None if it is no integer from 0 on."""
    value = detail.get(f"effective_{key}")
    return value if type(value) is int and value >= 0 else None


def performance_order(
    detail: Detail, scenario: str, count: int
) -> Callable[[Draws], np.ndarray] | None:
    """How the indices of a performance test's first `count` samples follow from its seeds; None if
    its loaded set, effective_min_query_count or the seed is missing.
    """
    sets = logged_sets(detail, scenario)
    seed = logged_seed(detail, "sample_index_rng_seed")
    least = detail.get("effective_min_query_count")
    if sets is None or seed is None or type(least) is not int:
        return None
    return partial(
        sample_order.performance,
        issue_settings(detail, scenario, seed),
        sets[0],
        count=count,
        min_query_count=sample_order.bounded(max(least, 1), count),
    )


def issue_settings(detail: Detail, scenario: str, seed: int) -> IssueSettings:
    """The settings in a test's log that decide the order of its samples. `seed` is its
    `logged_seed`.
    """
    equal = detail.get("effective_sample_concatenate_permutation") is True
    return IssueSettings(
        scenario=scenario,
        equal_issue=equal,
        seed=seed,
        per_query=samples_per_query(detail, scenario),
    )


def batches(detail: Detail, scenario: str, batch_size: object) -> tuple[int | None, int | None]:
    """(samples, batches) of a performance test; (None, None) if the log has no count, or
    `batch_size` is no valid size.
    """
    count = samples(detail, scenario)
    if count is None or not 0 < count < 1 << 53 or type(batch_size) is not int or batch_size < 1:
        return None, None
    return int(count), -(-int(count) // batch_size)
