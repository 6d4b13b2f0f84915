"""LoadGen's query sample library over one .npz: load = prepared rows in host memory; a batch = rows by slot, the last one padded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

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

    def load(self, indices: Sequence[int]) -> None:
        """LoadGen's callback: prepare these rows. Not timed."""
        rows = np.asarray(indices)
        self.loaded = {k: np.ascontiguousarray(v) for k, v in self.prepare({k: v[rows] for k, v in self.arrays.items()}).items()}
        self.slot[rows] = np.arange(len(rows))
        # Views, made before the clock: making one takes as long as all that LoadGen does for a query.
        self.singles = {int(i): {k: v[s : s + 1] for k, v in self.loaded.items()} for s, i in enumerate(indices)}

    def unload(self, indices: Sequence[int]) -> None:
        """LoadGen's callback: forget them."""
        self.loaded, self.singles = {}, {}
        self.slot[np.asarray(indices)] = -1

    def one(self, index: int) -> Batch:
        """A view of one loaded row, axis 0 kept."""
        return self.singles[index]

    def slots(self, indices: Sequence[int]) -> np.ndarray:
        """Where the samples of a whole query are loaded, for `gather`: once for all its batches."""
        return self.slot[np.asarray(indices)]

    def gather(self, slots: np.ndarray, size: int) -> Batch:
        """Loaded rows; fewer than `size` are filled up with the last one, whose extra answers are dropped."""
        if len(slots) < size:
            slots = np.concatenate([slots, np.full(size - len(slots), slots[-1])])
        return {k: v.take(slots, axis=0) for k, v in self.loaded.items()}

    def batch(self, indices: Sequence[int], size: int) -> Batch:
        """The loaded rows of these samples as one batch of `size`."""
        return self.gather(self.slots(indices), size)

    def batches(self, size: int) -> list[Batch]:
        """All samples, which must be loaded, in order."""
        return [self.batch(range(start, min(start + size, self.count)), size) for start in range(0, self.count, size)]
