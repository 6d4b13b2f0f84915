"""The order LoadGen issues samples in, from the seeds alone (loadgen/loadgen.cc, GenerateLoadableSets and GenerateQueries)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compliance.loadgen.random import Draws, Engine

_MOST_AHEAD = 1 << 20


def loaded_sets(total: int, set_size: int, qsl_seed: int, draws: Draws, each: int = 1) -> list[list[int]]:
    """The loadable sets of `total` samples (GenerateLoadableSets).

    Args:
        each: samples of a query of MultiStream, which are neighbours: the first ones of a set come again behind its last.
    """
    samples = Engine(qsl_seed, draws).shuffled(total)
    sets = [samples[start : start + set_size] for start in range(0, total, set_size)]
    for one in sets:
        for again in range(each - 1):  # a set may be shorter than what comes again
            one.append(one[again])
    return sets


def bounded(min_query_count: int, count: int) -> int:
    """As many as are worth reckoning with where `count` samples were issued: a log may say anything."""
    return min(min_query_count, max(2 * count, _MOST_AHEAD))


def performance(
    scenario: str,
    loaded: Sequence[int],
    count: int,
    min_query_count: int,
    equal_issue: bool,
    index_seed: int,
    draws: Draws,
    each: int = 1,
) -> np.ndarray:
    """The first `count` samples a performance test issues, int64 [count], by sequence number.

    Args:
        loaded: the loaded set, in its order.
        min_query_count: the effective one, of which equal issue makes its copies.
        each: samples of a query of MultiStream; `loaded` is that much longer less one.
    """
    engine, size, members = Engine(index_seed, draws), len(loaded), np.asarray(loaded, np.int64)
    if scenario == "Offline" and not equal_issue:  # the loaded set again and again: nothing is drawn
        return np.resize(members, count)
    engine.shuffled(len(_starts(size, each)))  # the order of performance_issue_unique, which is drawn even where it is not used
    copies = -(-min_query_count // size)
    order = list(range(size))
    chosen: list[int] = []
    for _ in range(copies):
        engine.shuffle(order)
        chosen += order
    if scenario == "Offline":
        return _equally(members, count, engine)
    if scenario == "MultiStream":  # equal issue changes how many queries there are, and not their samples
        return members[_neighbours(_drawn(size - each + 1, -(-count // each), engine), each)][:count]
    if not equal_issue:
        return members[_drawn(size, count, engine)]
    return members[np.resize(np.array(chosen), count)]


def _drawn(bound: int, count: int, engine: Engine) -> np.ndarray:
    return engine.many_below(bound, count) if bound > 1 else np.zeros(count, np.int64)


def _starts(size: int, each: int) -> range:
    """Where queries of `each` neighbours begin in a loaded set of `size`, the samples that come again included."""
    return range(0, size - each + 1, each)


def _neighbours(starts: np.ndarray, each: int) -> np.ndarray:
    return (np.asarray(starts, np.int64)[:, None] + np.arange(each)).ravel()


def _equally(members: np.ndarray, count: int, engine: Engine) -> np.ndarray:
    """Offline with equal issue: the loaded set again and again, each copy shuffled."""
    issued: list[int] = []
    for _ in range(-(-count // len(members))):
        copy = members.tolist()
        engine.shuffle(copy)
        issued += copy
    return np.array(issued[:count])


def accuracy(scenario: str, sets: Sequence[Sequence[int]], equal_issue: bool, index_seed: int, draws: Draws, each: int = 1) -> np.ndarray:
    """Every sample once, int64, by sequence number: set after set, each from the seed anew.

    MultiStream's last query of a set is filled up with its first samples, which so come twice.
    """
    orders = {size: _accuracy_order(scenario, size, equal_issue, Engine(index_seed, draws), each) for size in set(map(len, sets))}
    return np.concatenate([np.empty(0, np.int64), *(np.asarray(each, np.int64)[orders[len(each)]] for each in sets)])


def misplaced(
    scenario: str,
    sets: Sequence[Sequence[int]],
    equal_issue: bool,
    index_seed: int,
    each: int,
    seq_ids: np.ndarray,
    indices: np.ndarray,
) -> tuple[int, int] | None:
    """The first row of an accuracy log that is not of the sample the seed makes, and that sample's index; None: every row is.

    Args:
        seq_ids, indices: the sample number of each row, of those there are, and its index; int64 [n].
    """
    for draws in Draws:
        wanted = accuracy(scenario, sets, equal_issue, index_seed, draws, each)[seq_ids]
        others = np.flatnonzero(wanted != indices)
        if not others.size:
            return None
    return int(others[0]), int(wanted[others[0]])


def _accuracy_order(scenario: str, size: int, equal_issue: bool, engine: Engine, each: int) -> np.ndarray:
    """The places of a set of `size` samples, in the order they are issued."""
    if scenario == "MultiStream":
        starts = list(_starts(size, each))
        engine.shuffle(starts)
        return _neighbours(np.array(starts, np.int64), each)
    if not equal_issue:
        return np.arange(size) if scenario == "Offline" else np.array(engine.shuffled(size), np.int64)
    engine.shuffled(size)
    engine.shuffled(size)  # of performance_issue_unique
    equal = engine.shuffled(size)
    return np.array(engine.shuffled(size) if scenario == "Offline" else equal, np.int64)
