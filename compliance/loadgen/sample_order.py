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
_SHORTEST, _LONGEST = 64, 1 << 14
_MOST_AHEAD = 1 << 20


class Draws(Enum):
    """How libstdc++ draws an integer below a bound from 32 random bits."""

    PRODUCT = "GCC 11 or later"
    QUOTIENT = "GCC 10 or earlier"


class Engine:
    """std::mt19937, seeded as on Linux: with the low 32 bits of the seed."""

    def __init__(self, seed: int, draws: Draws):
        self._bits = np.random.MT19937()
        self._bits._legacy_seeding(seed % _RANGE)  # std::mt19937's own; the other ways of seeding are numpy's
        self._ahead = np.empty(0, np.uint64)  # drawn and not yet used
        self._draws = draws

    def below(self, bound: int) -> int:
        """std::uniform_int_distribution{0, bound - 1}; 2 ≤ bound < 2^32."""
        return int(self.each_below(np.array([bound]))[0])

    def many_below(self, bound: int, count: int) -> np.ndarray:
        """`count` of the same at once, int64 [count]."""
        return self.each_below(np.full(count, bound))

    def each_below(self, bounds: np.ndarray) -> np.ndarray:
        """One after the other below each of `bounds`, int64 [n].

        A draw that must be repeated shifts all after it: it goes run by run, and the longer, the longer none was.
        """
        found, done, run = np.empty(len(bounds), np.int64), 0, _SHORTEST
        while done < len(bounds):
            wanted = bounds[done : done + run].astype(np.uint64)
            value, good = self._mapped(self._drawn(len(wanted)), wanted)
            count = len(wanted) if good.all() else int(np.argmin(good))
            found[done : done + count] = value[:count]
            self._ahead = self._ahead[count + (count < len(wanted)) :]
            done += count
            run = min(2 * run, _LONGEST) if count == len(wanted) else _SHORTEST
        return found

    def _drawn(self, count: int) -> np.ndarray:
        """The next `count` draws, which stay the next."""
        if len(self._ahead) < count:
            self._ahead = np.concatenate([self._ahead, self._bits.random_raw(count - len(self._ahead))])
        return self._ahead[:count]

    def _mapped(self, raw: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the integers that draws make, which of them count)."""
        if self._draws is Draws.QUOTIENT:
            scale = np.uint64(_RANGE - 1) // bounds
            return raw // scale, raw < bounds * scale
        product = raw * bounds
        return product >> np.uint64(32), (product & np.uint64(_RANGE - 1)) >= (np.uint64(_RANGE) - bounds) % bounds

    def shuffle(self, values: list[int]) -> None:
        """std::shuffle, in place: up to 65,535 values take two positions from one draw."""
        positions = self._positions(len(values))
        for start in range(0, len(positions), _LONGEST):  # not all as Python integers at once
            for at, other in enumerate(positions[start : start + _LONGEST].tolist(), start + 1):
                values[at], values[other] = values[other], values[at]

    def _positions(self, count: int) -> np.ndarray:
        """Where the second, third, … of `count` values goes: each changes places with one not behind it."""
        if count < 2:
            return np.empty(0, np.int64)
        if (_RANGE - 1) // count < count:
            return self.each_below(np.arange(2, count + 1))
        single = 1 - count % 2  # of an even number the second value goes by itself
        pairs = np.arange(1 + single, count, 2)
        drawn = self.each_below(np.concatenate([np.full(single, 2), (pairs + 1) * (pairs + 2)]))
        both = np.stack(np.divmod(drawn[single:], pairs + 2), axis=1)
        return np.concatenate([drawn[:single], both.ravel()])

    def shuffled(self, count: int) -> list[int]:
        values = list(range(count))
        self.shuffle(values)
        return values


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
