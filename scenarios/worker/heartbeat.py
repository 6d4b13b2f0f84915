"""This module reports the worker's progress to the parent, through a memory-mapped file.

A write takes the worker 60 ns and needs no thread. The parent does not busy-wait: it reads once a
second.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PHASES = (
    "start",
    "load",
    "warm-up",
    "calibrate",
    "rate",
    "evidence",
    "test",
    "teacher-forced logits",
    "fresh inputs",
    "evaluation",
    "serve",
    "time",
    "profile",
    "done",
)
_PHASE, COMPLETED, _EXPECTED, _LIMIT_S = range(4)
_FORMAT = "<4Q"
_SIZE = struct.calcsize(_FORMAT)
# Loading and compiling have no heartbeat. Half an hour is enough for the slowest load so far (7 B
# parameters from a cold disk, XLA).
LOAD_LIMIT_S = 1800


class Beat(NamedTuple):
    """A worker's progress at one moment."""

    phase: str
    completed: int
    expected: int
    limit_s: int
    """Seconds without any change after which the phase counts as hung."""


OnBeat = Callable[[Beat], None]
"""Gets each new progress of a worker."""


class Heartbeat:
    """The worker's side, which writes. LoadGen's responder increases `cells[COMPLETED]` directly,
    once for each completed batch.
    """

    def __init__(self, path: Path):
        path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as f:
            self.cells = memoryview(mmap.mmap(f.fileno(), _SIZE)).cast("Q")

    def enter(self, phase: str, limit_s: float, expected: int = 0) -> None:
        """Begin a phase. `limit_s`: seconds without a change after which it counts as hung."""
        self.cells[_EXPECTED], self.cells[_LIMIT_S], self.cells[COMPLETED] = (
            expected,
            int(limit_s),
            0,
        )
        self.cells[_PHASE] = PHASES.index(phase)

    def allow(self, limit_s: float) -> None:
        """Change the seconds without a change after which the current phase counts as hung."""
        self.cells[_LIMIT_S] = int(limit_s)

    @contextmanager
    def within(self, limit_s: float) -> Iterator[None]:
        """A context with another limit than the rest of the phase."""
        earlier_s = self.limit_s
        self.allow(limit_s)
        yield
        self.allow(earlier_s)

    @property
    def limit_s(self) -> int:
        """Seconds without a change after which the current phase counts as hung."""
        return self.cells[_LIMIT_S]

    def bump(self) -> None:
        """Note that one more is completed."""
        self.cells[COMPLETED] += 1


def read(path: Path) -> Beat | None:
    """Read the progress, for the parent; None before the worker has created the file."""
    try:
        phase, *rest = struct.unpack(_FORMAT, path.read_bytes())
    except (OSError, struct.error):
        return None
    return Beat(PHASES[phase], *rest)


def hang_limit_s(slowest_batch_ns: float) -> float:
    """Seconds without a completion after which a test counts as hung: 10 × the slowest calibrated
    batch + 60 s.
    """
    return 10 * slowest_batch_ns / 1e9 + 60
