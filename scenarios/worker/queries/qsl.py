"""LoadGen's query sample library over one .npz. Loading prepares rows in host memory. A batch is a
number of loaded rows, padded with the last one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter_ns as _clock

import numpy as np

from scenarios.worker.queries import prepared_inputs
from scenarios.worker.queries.answers import Indices
from sut.contract import Batch


class Qsl:
    """The rows of one .npz, and the loaded ones among them, prepared for the SUT.

    Attributes:
        copy_ns, prepare_ns: nanoseconds in which the last `load` copied its rows, and in which
            `prepare` worked on the copies.
    """

    def __init__(self, path: Path, prepare: Callable[[Batch], Batch], start: int = 0):
        """`start` is the first row to use (a synthetic file begins with its warm-up rows)."""
        with np.load(path) as f:
            self.arrays = {k: f[k][start:] for k in f.files}
        self.prepare = prepare
        self.count = len(next(iter(self.arrays.values())))
        self.slot = np.full(self.count, -1)
        self.loaded: dict[str, np.ndarray] = {}
        self.singles: dict[int, Batch] = {}
        self.changed: list[str] = []
        self._digests: dict[str, str] = {}
        self.copy_ns = self.prepare_ns = 0

    def load(self, indices: Indices) -> None:
        """LoadGen's callback: prepare these rows. Not timed.

        Raises ValueError if `prepare` did more than it may. The arrays that it returned are
        read-only from here on.
        """
        rows = np.asarray(indices)
        given = {k: v[rows] for k, v in self.arrays.items()}
        begun_ns = _clock()
        copies = {k: v.copy() for k, v in given.items()}
        copied_ns = _clock()
        prepared = {k: np.ascontiguousarray(v) for k, v in self.prepare(copies).items()}
        self.copy_ns = copied_ns - begun_ns
        self.prepare_ns = _clock() - copied_ns
        prepared_inputs.check(given, prepared)
        self.loaded = {k: _read_only(v) for k, v in prepared.items()}
        self._digests = _digests(self.loaded)
        self.slot[rows] = np.arange(len(rows))
        # The views are created before the clock starts. Creating one takes as long as all of
        # LoadGen's work for a query.
        self.singles = {
            int(i): {k: v[s : s + 1] for k, v in self.loaded.items()} for s, i in enumerate(indices)
        }

    def unload(self, indices: Indices) -> None:
        """LoadGen's callback: drop the loaded rows. The names of arrays that the SUT has changed go
        into `changed`.
        """
        self.changed = [
            k for k, digest in _digests(self.loaded).items() if digest != self._digests[k]
        ]
        self.loaded = {}
        self.singles = {}
        self.slot[np.asarray(indices)] = -1

    def one(self, index: int) -> Batch:
        """A view of one loaded row, with axis 0."""
        return self.singles[index]

    def slots(self, indices: Indices) -> np.ndarray:
        """The places where the samples of a whole query are loaded, for `gather`. They are computed
        once for all batches of the query.
        """
        return self.slot[np.asarray(indices)]

    def gather(self, slots: np.ndarray, size: int) -> Batch:
        """The loaded rows in these places. Fewer than `size` rows are padded with copies of the
        last one, whose extra answers are dropped.
        """
        if len(slots) < size:
            slots = np.concatenate([slots, np.full(size - len(slots), slots[-1])])
        return {k: v.take(slots, axis=0) for k, v in self.loaded.items()}

    def batch(self, indices: Indices, size: int) -> Batch:
        """The loaded rows of these samples as one batch of `size`."""
        return self.gather(self.slots(indices), size)

    def in_turn(self, size: int) -> Iterator[Batch]:
        """Yield all samples in order, as batches. Only the samples of one batch are loaded."""
        for start in range(0, self.count, size):
            rows = range(start, min(start + size, self.count))
            self.load(rows)
            yield self.batch(rows, size)
            self.unload(rows)


def shuffled(count: int) -> np.ndarray:
    """Rows in random order, int64 [count]. The first rows of a file would not represent all rows,
    because a user's file may be sorted by length.
    """
    return np.random.default_rng(0).permutation(count)


def _read_only(array: np.ndarray) -> np.ndarray:
    """A read-only copy, because the SUT may still have a reference to the array that it
    returned.
    """
    held = array.copy()
    held.flags.writeable = False
    return held


def _digests(arrays: Batch) -> dict[str, str]:
    return {name: hashlib.sha256(array.data).hexdigest() for name, array in arrays.items()}
