"""One process at a time, by a lock file the kernel gives up with its holder. Standard library only: the bootstrap uses it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path


class Taken(Exception):
    """Another process holds the lock, and waiting was not asked for."""


@contextmanager
def held(path: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold `path` (made if need be). If another process does: call `on_wait` and wait, or raise Taken where there is none."""
    handle = _opened(path)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is None:
                raise Taken from None
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _opened(path: Path) -> int:
    """A lock needs no right to write: another user's file in the temporary folder can be locked too."""
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)


def machine(say: Callable[[str], None]) -> AbstractContextManager[None]:
    """Held while a worker runs: two cells at one time on one machine would both be measured wrong. The second one waits, and says so."""
    path = Path(tempfile.gettempdir()) / "keras-mlperf-harness.lock"
    return held(path, lambda: say("waiting: another cell is being measured on this machine, and two at a time would disturb each other"))
