"""The order LoadGen issues samples in, from the seeds alone: std::mt19937, libstdc++'s shuffle and uniform_int_distribution.

Sources: loadgen/loadgen.cc (GenerateLoadableSets, GenerateQueries), libstdc++ bits/stl_algo.h (shuffle) and bits/uniform_int_dist.h. How
a bounded integer is drawn changed with GCC 11, so there are two orders: a wheel has one, a LoadGen built elsewhere may have the other.
Another standard library (libc++, MSVC) has one of its own, which is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

_RANGE = 1 << 32
_BLOCK = 1 << 14


class Draws(Enum):
    """How libstdc++ draws an integer below a bound from 32 random bits."""

    PRODUCT = "GCC 11 or later"
    QUOTIENT = "GCC 10 or earlier"


class Engine:
    """std::mt19937, seeded as on Linux: with the low 32 bits of the seed."""

    def __init__(self, seed: int, draws: Draws):
        self._bits = np.random.MT19937()
        self._bits._legacy_seeding(seed % _RANGE)  # std::mt19937's own; the other ways of seeding are numpy's
        self._ahead: list[int] = []  # drawn and not yet used, the next one last
        self._draws = draws

    def _next(self) -> int:
        if not self._ahead:
            self._ahead = self._bits.random_raw(_BLOCK)[::-1].tolist()
        return self._ahead.pop()

    def _take(self, count: int) -> np.ndarray:
        used = self._ahead[-count:][::-1]
        del self._ahead[-count:]
        return np.concatenate([np.array(used, np.uint64), self._bits.random_raw(count - len(used))])

    def below(self, bound: int) -> int:
        """std::uniform_int_distribution{0, bound - 1}; 2 ≤ bound < 2^32."""
        while True:
            raw = self._next()
            if self._draws is Draws.QUOTIENT:
                scale = (_RANGE - 1) // bound
                if raw < bound * scale:
                    return raw // scale
            elif (raw * bound) % _RANGE >= (_RANGE - bound) % bound:
                return raw * bound // _RANGE

    def many_below(self, bound: int, count: int) -> np.ndarray:
        """`count` of the same at once, int64 [count]."""
        parts, lacking, wide = [np.empty(0, np.uint64)], count, np.uint64(bound)
        while lacking > 0:
            raw = self._take(lacking)
            if self._draws is Draws.QUOTIENT:
                scale = np.uint64((_RANGE - 1) // bound)
                parts.append((raw // scale)[raw < wide * scale])
            else:
                product = raw * wide
                accepted = (product & np.uint64(_RANGE - 1)) >= np.uint64((_RANGE - bound) % bound)
                parts.append((product >> np.uint64(32))[accepted])
            lacking -= len(parts[-1])
        return np.concatenate(parts).astype(np.int64)

    def shuffle(self, values: list[int]) -> None:
        """std::shuffle, in place: up to 65,535 values take two positions from one draw."""
        count = len(values)
        if count and (_RANGE - 1) // count < count:
            for at in range(1, count):
                self._swap(values, at, self.below(at + 1))
            return
        even = count > 0 and count % 2 == 0
        if even:
            self._swap(values, 1, self.below(2))
        for at in range(1 + even, count, 2):
            first, second = divmod(self.below((at + 1) * (at + 2)), at + 2)
            self._swap(values, at, first)
            self._swap(values, at + 1, second)

    @staticmethod
    def _swap(values: list[int], a: int, b: int) -> None:
        values[a], values[b] = values[b], values[a]

    def shuffled(self, count: int) -> list[int]:
        values = list(range(count))
        self.shuffle(values)
        return values


def loaded_sets(total: int, set_size: int, qsl_seed: int, draws: Draws) -> list[list[int]]:
    """The loadable sets of `total` samples (GenerateLoadableSets; SingleStream, Offline, Server)."""
    samples = Engine(qsl_seed, draws).shuffled(total)
    return [samples[start : start + set_size] for start in range(0, total, set_size)]


def performance(
    scenario: str, loaded: Sequence[int], count: int, min_query_count: int, equal_issue: bool, index_seed: int, draws: Draws
) -> np.ndarray:
    """The first `count` samples a performance test issues, int64 [count], by sequence number.

    Args:
        loaded: the loaded set, in its order.
        min_query_count: the effective one, of which equal issue makes its copies.
    """
    engine, size, members = Engine(index_seed, draws), len(loaded), np.asarray(loaded, np.int64)
    engine.shuffled(size)  # the order of performance_issue_unique, which is drawn even where it is not used
    copies = -(-min_query_count // size)
    order = list(range(size))
    chosen: list[int] = []
    for _ in range(copies):
        engine.shuffle(order)
        chosen += order
    if scenario == "Offline":
        return _offline(members, count, equal_issue, engine)
    if not equal_issue:
        return members[engine.many_below(size, count)] if size > 1 else np.repeat(members, count)
    return members[np.resize(np.array(chosen), count)]


def _offline(members: np.ndarray, count: int, equal_issue: bool, engine: Engine) -> np.ndarray:
    """The loaded set again and again; with equal issue each copy is shuffled."""
    if not equal_issue:
        return np.resize(members, count)
    issued: list[int] = []
    for _ in range(-(-count // len(members))):
        copy = members.tolist()
        engine.shuffle(copy)
        issued += copy
    return np.array(issued[:count])


def accuracy(scenario: str, sets: Sequence[Sequence[int]], equal_issue: bool, index_seed: int, draws: Draws) -> np.ndarray:
    """Every sample once, int64, by sequence number: set after set, each from the seed anew."""
    issued: list[int] = []
    for loaded in sets:
        engine, size = Engine(index_seed, draws), len(loaded)
        first = engine.shuffled(size)
        engine.shuffled(size)  # of performance_issue_unique
        equal = engine.shuffled(size)
        members = list(loaded)
        if scenario != "Offline":
            members = [loaded[i] for i in (equal if equal_issue else first)]
        elif equal_issue:
            engine.shuffle(members)
        issued += members
    return np.array(issued, np.int64)
