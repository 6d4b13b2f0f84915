"""This module records a test while it runs: when each batch was answered, which samples it
contained, and some of the answers.

LoadGen only counts the answers of a performance test. The record shows if a SUT gives stale or
shorter answers from some batch on. It costs less than half a microsecond a batch
(docs/measured/overhead.md).
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

from scenarios.worker.queries.batching import Queue
from scenarios.worker.queries.latency_limits import Limited

KEPT = 256
"""The number of answers that are kept. If one answer in a hundred is wrong, a wrong one is among
them with a probability of 92 %.
"""
_KEPT_BYTES = 64 << 20
_SEED = 20261121


@dataclass(slots=True)
class Watch:
    """The record of a test. LoadGen's responder fills it, one batch at a time.

    Attributes:
        planned: the samples that the test is expected to issue. Kept answers are spread over them.
            0: no answer is kept.
        one_pass: the number of distinct samples. Half of the kept answers are from the first that
            many.
        payload_bytes: the bytes handed to LoadGen so far.
        times: `perf_counter_ns` after each batch, and before the first one if the scenario called
            `start`.
        indices: the samples' indices in the query sample library, in the order of the answers.
        next_kept: the number of the next answer to keep.
        queue, limited: the queue and the limits of a scenario in which requests wait; None: none
            wait.
        first_ns: nanoseconds from the beginning of a streamed batch to its first tokens, one entry
            an answer.
        later_ns: nanoseconds a later token of a streamed answer, one entry an answer.
        in_one_part: how many of the answers in `later_ns` had their tokens handed over at one
            moment.
        kept: (number, bytes) of each kept answer.
    """

    planned: int = 0
    one_pass: int = 0
    payload_bytes: int = 0
    times: array[int] = field(default_factory=lambda: array("q"))
    indices: array[int] = field(default_factory=lambda: array("q"))
    kept: list[tuple[int, bytes]] = field(default_factory=list)
    queue: Queue | None = None
    limited: Limited | None = None
    first_ns: array[float] = field(default_factory=lambda: array("d"))
    later_ns: array[float] = field(default_factory=lambda: array("d"))
    in_one_part: int = 0
    next_kept: int = field(init=False)
    _numbers: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        # Drawn now, so that the test does not pay for it.
        numbers = tuple(_numbers(self.planned, self.one_pass)) if self.planned else ()
        self._numbers = chain(numbers, repeat(sys.maxsize))
        self.next_kept = next(self._numbers)

    @property
    def samples(self) -> int:
        """The number of samples handed to LoadGen so far."""
        return len(self.indices)

    def start(self) -> None:
        """Record that the first batch begins now."""
        self.times.append(perf_counter_ns())

    def keep(self, rows: np.ndarray, lengths: Sequence[int] | None, count: int) -> int:
        """Copy the answers to keep from the last batch, whose `count` samples are the last ones of
        `indices`. Returns `next_kept`.
        """
        first = self.samples - count
        while (at := self.next_kept - first) < count:
            content = rows[at].tobytes()
            self.kept.append(
                (self.next_kept, content if lengths is None else content[: lengths[at]])
            )
            for _ in range(1 + len(content) * KEPT // _KEPT_BYTES):  # fewer, if answers are large
                self.next_kept = next(self._numbers)
        return self.next_kept

    def write(self, path: Path, count: int) -> str:
        """Write the kept answers and, for each of `count` samples, how often it was answered.
        Returns the sha256 of the file.

        The .npz contains numbers and indices, int64 [k]; content, uint8, all kept answers one after
        the other; starts, int64 [k + 1]; visits, int64 [count].
        """
        numbers = np.array([number for number, _ in self.kept], np.int64)
        indices = np.asarray(self.indices, np.int64)
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

    def token_latencies(self) -> dict[str, float]:
        """Percentiles of `first_ns` and `later_ns` in nanoseconds, by their names in `metrics`.
        Empty if nothing was streamed.
        """
        return {
            f"{name}_p{percent}_ms": float(np.percentile(values, percent))
            for name, values in (("ttft", self.first_ns), ("tpot", self.later_ns))
            for percent in (50, 90, 99)
            if len(values)
        }

    @property
    def share_in_one_part(self) -> float:
        """The share of the answers with later tokens that were handed over at one moment."""
        return self.in_one_part / max(1, len(self.later_ns))

    def gaps_ns(self) -> np.ndarray:
        """Nanoseconds between the answers of one batch and of the next, int64 [batches], or one
        less if no start is known.
        """
        return np.diff(np.asarray(self.times, np.int64))


def _numbers(planned: int, one_pass: int) -> Iterator[int]:
    """The numbers of the answers to keep, ascending. One is drawn at random from each of several
    equal stretches, half of them in the first pass.

    For a test longer than planned, stretches of the same length follow, up to four times as far.
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
