"""The random numbers of LoadGen: std::mt19937 with the distributions and the shuffle of libstdc++
or libc++.

GCC 11 changed how libstdc++ draws a bounded integer. So there are three orders of samples: a wheel
for Linux has one, a LoadGen built elsewhere may have another. The order of MSVC is not known here.

Sources: libstdc++ bits/random.tcc (generate_canonical), bits/stl_algo.h (shuffle) and
bits/uniform_int_dist.h; libc++ __algorithm/shuffle.h, __random/uniform_int_distribution.h.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

MOST_SAMPLES = 20_000_000
"""Up to this many samples, selection and order are recomputed exactly. For more samples that would
take gigabytes.
"""
_RANGE = 1 << 32
_SHORTEST = 64
_LONGEST = 1 << 14


def mersenne_twister(seed: int) -> np.random.MT19937:
    """std::mt19937 as LoadGen seeds it on Linux: with the low 32 bits of the seed."""
    bits = np.random.MT19937()
    state = np.random.RandomState(seed % _RANGE).get_state(legacy=False)  # as std::mt19937
    bits.state = state  # type: ignore[assignment]
    return bits


def canonical(engine: np.random.MT19937, count: int) -> np.ndarray:
    """`count` numbers of std::uniform_real_distribution<double>{0, 1}, float64 [count]. Each takes
    two draws, the lower half first.
    """
    return joined(engine.random_raw(2 * count))


def joined(raw: np.ndarray) -> np.ndarray:
    """The numbers from 0 to 1 that pairs of draws give, float64 [draws / 2]."""
    return raw[1::2] * 2.0**-32 + raw[::2] * 2.0**-64  # rounded once, as the whole number would be


class Draws(Enum):
    """The ways in which an integer below a bound is drawn from 32 random bits. libc++ also shuffles
    from the front.
    """

    PRODUCT = "GCC 11 or later"
    MASK = "libc++, as on macOS"
    QUOTIENT = "GCC 10 or earlier"


class Engine:
    """std::mt19937 with libstdc++'s bounded integers and shuffle. The same seed and `draws` give
    the same numbers.
    """

    def __init__(self, seed: int, draws: Draws):
        self._bits = mersenne_twister(seed)
        self._ahead = np.empty(0, np.uint64)  # drawn and not yet used
        self._draws = draws

    def each_below(self, bounds: np.ndarray) -> np.ndarray:
        """The next integers, one below each of `bounds`, int64 [n], as
        std::uniform_int_distribution{0, bound - 1}; 2 ≤ bound < 2^32.

        A rejected draw shifts every later one, so draws are mapped in runs. The run length doubles
        while nothing is rejected and starts over after a rejection.
        """
        integers = np.empty(len(bounds), np.int64)
        done = 0
        run = _SHORTEST
        while done < len(bounds):
            ahead = bounds[done : done + run].astype(np.uint64)
            values, accepted = self._mapped(self._drawn(len(ahead)), ahead)
            count = len(ahead) if accepted.all() else int(np.argmin(accepted))
            integers[done : done + count] = values[:count]
            self._ahead = self._ahead[count + (count < len(ahead)) :]
            done += count
            run = min(2 * run, _LONGEST) if count == len(ahead) else _SHORTEST
        return integers

    def _drawn(self, count: int) -> np.ndarray:
        """The next `count` draws, uint64 [count], without taking them."""
        if len(self._ahead) < count:
            more = self._bits.random_raw(count - len(self._ahead))
            self._ahead = np.concatenate([self._ahead, more])
        return self._ahead[:count]

    def _mapped(self, raw: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the integer of each draw, whether the draw is accepted)."""
        if self._draws is Draws.MASK:
            bits = np.frexp((bounds - np.uint64(1)).astype(np.float64))[1]
            low = raw & ((np.uint64(1) << bits.astype(np.uint64)) - np.uint64(1))
            return low, low < bounds
        if self._draws is Draws.QUOTIENT:
            scale = np.uint64(_RANGE - 1) // bounds
            return raw // scale, raw < bounds * scale
        product = raw * bounds
        low = product & np.uint64(_RANGE - 1)
        return product >> np.uint64(32), low >= (np.uint64(_RANGE) - bounds) % bounds

    def shuffle(self, values: list[int]) -> None:
        """Shuffles `values` in place, as std::shuffle does, so that LoadGen's order of samples can
        be computed again.

        For lists of up to 65,535 values one draw gives the positions of two neighbours.
        """
        positions = self._positions(len(values))
        first = 0 if self._draws is Draws.MASK else 1
        for start in range(0, len(positions), _LONGEST):  # not all as Python integers at once
            for at, other in enumerate(positions[start : start + _LONGEST].tolist(), start + first):
                values[at], values[other] = values[other], values[at]

    def skip(self, count: int) -> None:
        """Draws what a shuffle of `count` values draws."""
        self._positions(count)

    def _positions(self, count: int) -> np.ndarray:
        """The position that the second, third, … of `count` values is swapped with, int64 [count -
        1]. No position is later than the value's own. libc++: the same for the first, second, …
        value, and no position is earlier.
        """
        if count < 2:
            return np.empty(0, np.int64)
        if self._draws is Draws.MASK:
            return np.arange(count - 1) + self.each_below(np.arange(count, 1, -1))
        if (_RANGE - 1) // count < count:
            return self.each_below(np.arange(2, count + 1))
        single = 1 - count % 2  # if the number is even, the second value is drawn separately
        pairs = np.arange(1 + single, count, 2)
        drawn = self.each_below(np.concatenate([np.full(single, 2), (pairs + 1) * (pairs + 2)]))
        both = np.stack(np.divmod(drawn[single:], pairs + 2), axis=1)
        return np.concatenate([drawn[:single], both.ravel()])

    def shuffled(self, count: int) -> list[int]:
        """The integers from 0 to `count` - 1, shuffled."""
        values = list(range(count))
        self.shuffle(values)
        return values
