"""This module keeps a record of a test while it runs: when each batch was answered, which samples
it held, and some of the answers.

Nobody else looks at the answers of a performance test: LoadGen only counts them. The record shows
it if a SUT gives stale or shorter answers from some batch on. Keeping the record costs less than
half a microsecond a batch (benchmarks/overhead.py).
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

KEPT = 256
"""So many answers are kept: where one in a hundred is wrong, one of them is with a probability of
92 %.
"""
_KEPT_BYTES = 64 << 20
_SEED = 20261121


@dataclass(slots=True)
class Watch:
    """Filled by LoadGen's responder, a batch at a time.

    Attributes:
        planned: samples the test is expected to issue; kept answers are spread over them. 0: none
            is kept.
        one_pass: distinct samples; half of the kept answers are of the first that many.
        payload_bytes: handed to LoadGen so far.
        times: `perf_counter_ns` after each batch; before the first one too, where the scenario
            called `start`.
        indices: of the query sample library, in the order of the answers.
        next_kept: number of the next answer to keep.
        kept: (number, bytes) of each.
    """

    planned: int = 0
    one_pass: int = 0
    payload_bytes: int = 0
    times: array[int] = field(default_factory=lambda: array("q"))
    indices: array[int] = field(default_factory=lambda: array("q"))
    kept: list[tuple[int, bytes]] = field(default_factory=list)
    next_kept: int = field(init=False)
    _numbers: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        # Drawn now, so that the test does not pay for it.
        numbers = tuple(_numbers(self.planned, self.one_pass)) if self.planned else ()
        self._numbers = chain(numbers, repeat(sys.maxsize))
        self.next_kept = next(self._numbers)

    @property
    def samples(self) -> int:
        """Handed to LoadGen so far."""
        return len(self.indices)

    def start(self) -> None:
        """The first batch begins now."""
        self.times.append(perf_counter_ns())

    def keep(self, rows: np.ndarray, lengths: Sequence[int] | None, count: int) -> int:
        """Copy what is to be kept of the batch whose `count` samples were the last ones that
        `indices` got. → `next_kept`.
        """
        first = self.samples - count
        while (at := self.next_kept - first) < count:
            content = rows[at].tobytes()
            self.kept.append(
                (self.next_kept, content if lengths is None else content[: lengths[at]])
            )
            for _ in range(1 + len(content) * KEPT // _KEPT_BYTES):  # of large answers fewer
                self.next_kept = next(self._numbers)
        return self.next_kept

    def write(self, path: Path, count: int) -> str:
        """Write the kept answers and, for each of `count` samples, how often it was answered. →
        sha256 of the file.

        The .npz holds: numbers, indices int64 [k]; content uint8, all kept answers one after the
        other; starts int64 [k + 1]; visits int64 [count].
        """
        numbers, indices = (
            np.array([number for number, _ in self.kept], np.int64),
            np.asarray(self.indices, np.int64),
        )
        arrays: dict[str, Any] = {
            "numbers": numbers,
            "indices": indices[numbers],
            "content": np.frombuffer(b"".join(answer for _, answer in self.kept), np.uint8),
            "starts": np.cumsum([0, *(len(answer) for _, answer in self.kept)]),
            "visits": np.bincount(indices, minlength=count),
        }
        with path.open("wb") as f:
            np.savez(f, allow_pickle=False, **arrays)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def gaps_ns(self) -> np.ndarray:
        """Nanoseconds between one batch's answers and the next one's, int64 [batches], or one less
        where no start is known.
        """
        return np.diff(np.asarray(self.times, np.int64))


def _numbers(planned: int, one_pass: int) -> Iterator[int]:
    """The numbers of the answers to keep, ascending: one at random of each of equal stretches, half
    of them in the first pass.

    A test longer than planned goes on with stretches of the same length, up to four times as far.
    """
    rng = np.random.default_rng(_SEED)
    first = min(one_pass or planned, planned) or 1
    begin = 0
    for end, count in ((first, KEPT // 2), (planned, KEPT // 2)):
        step = max(1, (end - begin) // count)
        while begin + step <= end:
            yield begin + int(rng.integers(step))
            begin += step
    step = max(1, (planned - first) // (KEPT // 2))
    for _ in range(3 * KEPT):
        yield begin + int(rng.integers(step))
        begin += step
