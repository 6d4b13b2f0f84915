"""The samples of one .npz, which every replica has loaded. Only indices travel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scenarios.worker.queries.answers import Indices
from scenarios.worker.replicas.link import Message

Ask = Callable[..., list[Message]]
"""`scenarios.worker.replicas.dispatcher.Replicated.ask`."""


class Rows(NamedTuple):
    """A batch of a library.

    Attributes:
        library: the number of the library.
        indices: the samples. If they are fewer than `size`, the replica pads the batch.
        size: the rows of the batch.
    """

    library: int
    indices: Indices
    size: int


class Library:
    """LoadGen's query sample library, in the memory of every replica. See
    `scenarios.worker.queries.qsl.Qsl`.

    Attributes:
        count: the number of samples.
        changed: names of the arrays that a SUT has changed.
    """

    def __init__(self, ask: Ask, number: int, path: Path, start: int = 0):
        """`start` is the first row to use."""
        self._ask = ask
        self._number = number
        (reply, *_) = ask("open", library=number, path=str(path), start=start)
        self.count: int = reply.header["count"]
        self.changed: list[str] = []

    def load(self, indices: Indices) -> None:
        """LoadGen's callback: let every replica prepare these rows. Not timed."""
        self._ask("rows", {"indices": np.asarray(indices, np.int64)}, library=self._number)

    def unload(self, indices: Indices) -> None:
        """LoadGen's callback: let every replica drop these rows."""
        arrays = {"indices": np.asarray(indices, np.int64)}
        replies = self._ask("drop", arrays, library=self._number)
        names = {name for reply in replies for name in reply.header["changed"]}
        self.changed = sorted(names)

    def close(self) -> None:
        """Let every replica free the samples."""
        self._ask("close", library=self._number)

    def batch(self, indices: Indices, size: int) -> Rows:
        """These samples as one batch of `size`."""
        return Rows(self._number, indices, size)
