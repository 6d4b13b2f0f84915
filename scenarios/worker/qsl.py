"""LoadGen's query sample library over one .npz: load = prepared rows in host memory; a batch = rows
by slot, the last one padded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from scenarios.worker import prepared_inputs
from sut.contract import Batch


class Qsl:
    """The rows of one .npz, and those of them that LoadGen has loaded, prepared for the SUT."""

    def __init__(self, path: Path, prepare: Callable[[Batch], Batch], start: int = 0):
        """`start`: the first row that counts (a synthetic file begins with its warm-up rows)."""
        with np.load(path) as f:
            self.arrays = {k: f[k][start:] for k in f.files}
        self.prepare = prepare
        self.count = len(next(iter(self.arrays.values())))
        self.slot = np.full(self.count, -1)
        self.loaded: dict[str, np.ndarray] = {}
        self.singles: dict[int, Batch] = {}
        self.changed: list[str] = []
        self._digests: dict[str, str] = {}

    def load(self, indices: Sequence[int]) -> None:
        """LoadGen's callback: prepare these rows. Not timed.

        Raises ValueError where `prepare` did more than it may. What it returned is read-only from
        here on.
        """
        rows = np.asarray(indices)
        given = {k: v[rows] for k, v in self.arrays.items()}
        prepared = {
            k: np.ascontiguousarray(v)
            for k, v in self.prepare({k: v.copy() for k, v in given.items()}).items()
        }
        prepared_inputs.check(given, prepared)
        self.loaded = {k: _read_only(v) for k, v in prepared.items()}
        self._digests = _digests(self.loaded)
        self.slot[rows] = np.arange(len(rows))
        # Views, made before the clock: making one takes as long as all that LoadGen does for a
        # query.
        self.singles = {
            int(i): {k: v[s : s + 1] for k, v in self.loaded.items()} for s, i in enumerate(indices)
        }

    def unload(self, indices: Sequence[int]) -> None:
        """LoadGen's callback: forget them, and note in `changed` the names of arrays that are not
        what they were.
        """
        self.changed = [
            k for k, digest in _digests(self.loaded).items() if digest != self._digests[k]
        ]
        self.loaded, self.singles = {}, {}
        self.slot[np.asarray(indices)] = -1

    def one(self, index: int) -> Batch:
        """A view of one loaded row, axis 0 kept."""
        return self.singles[index]

    def slots(self, indices: Sequence[int]) -> np.ndarray:
        """The places where the samples of a whole query are loaded, for `gather`: once for all its
        batches.
        """
        return self.slot[np.asarray(indices)]

    def gather(self, slots: np.ndarray, size: int) -> Batch:
        """Loaded rows; fewer than `size` are filled up with the last one, whose extra answers are
        dropped.
        """
        if len(slots) < size:
            slots = np.concatenate([slots, np.full(size - len(slots), slots[-1])])
        return {k: v.take(slots, axis=0) for k, v in self.loaded.items()}

    def batch(self, indices: Sequence[int], size: int) -> Batch:
        """The loaded rows of these samples as one batch of `size`."""
        return self.gather(self.slots(indices), size)

    def batches(self, size: int) -> list[Batch]:
        """All samples, which must be loaded, in order."""
        return [
            self.batch(range(start, min(start + size, self.count)), size)
            for start in range(0, self.count, size)
        ]


def _read_only(array: np.ndarray) -> np.ndarray:
    """A copy where the SUT may still hold what it returned."""
    held = array.copy()
    held.flags.writeable = False
    return held


def _digests(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    return {name: hashlib.sha256(array.data).hexdigest() for name, array in arrays.items()}
