"""The order in which LoadGen issues samples, computed from the seeds (loadgen/loadgen.cc,
GenerateLoadableSets and GenerateQueries). All functions are pure.

A query of MultiStream has `per_query` samples, which are neighbours in the loaded set. In other
scenarios `per_query` is 1.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from compliance.loadgen.random import Draws, Engine

_MOST_QUERIES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class IssueSettings:
    """The settings that decide the order in which a test issues the samples of its loaded sets.

    Attributes:
        equal_issue: sample_concatenate_permutation.
        seed: sample_index_rng_seed.
        per_query: samples of a query.
    """

    scenario: str
    equal_issue: bool
    seed: int
    per_query: int = 1


def loaded_sets(
    total: int, set_size: int, qsl_seed: int, draws: Draws, per_query: int = 1
) -> list[array]:
    """The sets that LoadGen loads from a library of `total` samples, each of `set_size` indices
    (GenerateLoadableSets), as arrays of 8 bytes.

    MultiStream repeats the first `per_query` - 1 samples of a set after its last one.
    """
    samples = _library(total, qsl_seed, draws)
    sets = []
    for start in range(0, total, set_size):
        one = samples[start : start + set_size]
        # A set may have fewer samples than are repeated.
        sets.append(array("q", np.resize(one, len(one) + per_query - 1).tobytes()))
    return sets


@lru_cache(maxsize=8)
def _library(total: int, seed: int, draws: Draws) -> np.ndarray:
    """The samples of a library in the order in which they are loaded, int64 [total]. The tests of a
    round have few libraries and one seed.
    """
    return np.array(Engine(seed, draws).shuffled(total), np.int64)


def bounded(min_query_count: int, count: int) -> int:
    """`min_query_count`, but at most the number that a test of `count` samples can need. A log may
    state any number.
    """
    return min(min_query_count, max(2 * count, _MOST_QUERIES))


def performance(
    settings: IssueSettings,
    loaded: Sequence[int],
    draws: Draws,
    *,
    count: int,
    min_query_count: int,
) -> np.ndarray:
    """The indices of the first `count` samples that a performance test issues, int64 [count], by
    sequence number.

    Args:
        loaded: the loaded set, in its order, with the samples that MultiStream repeats.
        min_query_count: the effective one, which gives the number of copies of the set under equal
            issue.
    """
    engine = Engine(settings.seed, draws)
    members = np.asarray(loaded, np.int64)
    size = len(members)
    scenario = settings.scenario
    per_query = settings.per_query
    # The loaded set is issued again and again, and nothing is drawn.
    if scenario == "Offline" and not settings.equal_issue:
        return np.resize(members, count)
    # The order of performance_issue_unique, which is drawn even if it is not used.
    engine.skip(len(_starts(size, per_query)))
    # Equal issue changes only the number of queries of MultiStream, and not their samples.
    is_used = settings.equal_issue and scenario not in ("Offline", "MultiStream")
    order = list(range(size))
    positions: list[int] = []
    for _ in range(-(-min_query_count // size)):
        if is_used:
            engine.shuffle(order)
            positions += order
        else:
            engine.skip(size)
    if is_used:
        return members[np.resize(np.array(positions), count)]
    if scenario == "Offline":
        return _equal_offline(members, count, engine)
    if scenario == "MultiStream":
        starts = _drawn(size - per_query + 1, -(-count // per_query), engine)
        return members[_neighbours(starts, per_query)][:count]
    return members[_drawn(size, count, engine)]


def _drawn(bound: int, count: int, engine: Engine) -> np.ndarray:
    """`count` integers below `bound`, int64 [count]. For a bound of 1 all are 0, and nothing is
    drawn.
    """
    return engine.each_below(np.full(count, bound)) if bound > 1 else np.zeros(count, np.int64)


def _starts(size: int, per_query: int) -> range:
    """The places where MultiStream's queries begin in a loaded set of `size`, including the
    repeated samples.
    """
    return range(0, size - per_query + 1, per_query)


def _neighbours(starts: np.ndarray, per_query: int) -> np.ndarray:
    """The positions of all samples of queries that begin at `starts`, int64 [starts ×
    per_query].
    """
    return (np.asarray(starts, np.int64)[:, None] + np.arange(per_query)).ravel()


def _equal_offline(members: np.ndarray, count: int, engine: Engine) -> np.ndarray:
    """The indices that Offline issues under equal issue, int64 [count]: copies of the loaded set,
    each shuffled.
    """
    issued: list[int] = []
    for _ in range(-(-count // len(members))):
        copy = members.tolist()
        engine.shuffle(copy)
        issued += copy
    return np.array(issued[:count])


def accuracy(settings: IssueSettings, sets: Sequence[Sequence[int]], draws: Draws) -> np.ndarray:
    """The indices that an accuracy test issues, int64, by sequence number. It issues every sample
    once, set after set, and each set starts again from the seed.

    MultiStream fills up the last query of a set with the set's first samples, so these come twice.
    """
    issued = [np.empty(0, np.int64)]
    for one in sets:
        issued.append(np.asarray(one, np.int64)[_accuracy_order(settings, len(one), draws)])
    return np.concatenate(issued)


def misplaced(
    order: Callable[[Draws], np.ndarray],
    indices: np.ndarray,
    seq_ids: np.ndarray | slice = slice(None),
) -> tuple[int, int] | None:
    """(first row with another sample than the seed gives, the index that the seed gives); None if
    there is no such row. The seed is drawn from in the way that agrees with the most rows.

    Args:
        order: the indices by sample number, as `accuracy` or `performance` gives them, int64.
        indices: the index of each row, int64 [n].
        seq_ids: the sample number of each row, int64 [n].
    """
    found = (-1, -1)
    for draws in Draws:
        expected = order(draws)[seq_ids]
        others = np.flatnonzero(expected != indices)
        if not others.size:
            return None
        first = int(others[0])
        found = max(found, (first, int(expected[first])))
    return found


@lru_cache(maxsize=32)
def _accuracy_order(settings: IssueSettings, size: int, draws: Draws) -> np.ndarray:
    """The positions in a set of `size` samples, in the order in which an accuracy test issues them,
    int64.
    """
    scenario = settings.scenario
    engine = Engine(settings.seed, draws)
    if scenario == "MultiStream":
        starts = list(_starts(size, settings.per_query))
        engine.shuffle(starts)
        return _neighbours(np.array(starts, np.int64), settings.per_query)
    if not settings.equal_issue and scenario == "Offline":
        return np.arange(size)
    if not settings.equal_issue:
        return np.array(engine.shuffled(size), np.int64)
    engine.skip(size)
    engine.skip(size)  # the order of performance_issue_unique, which is not used
    if scenario == "Offline":
        engine.skip(size)
    return np.array(engine.shuffled(size), np.int64)
