"""The order in which replicas get batches."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

_STALE = 8
"""The heap is made again when it has so many entries for each replica."""


class Turns:
    """Finds the replica that gets the next batch, in a time that hardly grows with their number.

    It is the one with the fewest batches, and of those the one that waits longest. A SUT that keeps
    several in flight gets them together, because it does not wait for a second one before it
    blocks.
    """

    def __init__(self, replicas: Sequence[Any]):
        """`replicas`: by their numbers; each has `number`, the `requests` that it holds, and
        `since_ns`, since when.
        """
        self._replicas = replicas
        self.begin(1)

    def begin(self, at_once: int) -> None:
        """Hand out so many batches together from here on."""
        self._at_once = at_once
        self._heap = [self._entry(replica) for replica in self._replicas]
        heapq.heapify(self._heap)

    def note(self, replica: Any) -> None:
        """Note that a replica has other requests, or holds them since another time."""
        heapq.heappush(self._heap, self._entry(replica))
        if len(self._heap) > _STALE * len(self._replicas):
            self.begin(self._at_once)

    def next(self) -> int:
        """The number of the replica that gets the next batch."""
        while True:
            number = self._heap[0][-1]
            if self._heap[0] == self._entry(self._replicas[number]):
                return number
            heapq.heappop(self._heap)

    def _entry(self, replica: Any) -> tuple[int, bool, int, int]:
        """The key of a replica. The next one has the smallest. A key that changed is stale."""
        count = len(replica.requests)
        is_whole = count % self._at_once == 0
        return count // self._at_once, is_whole, replica.since_ns, replica.number
