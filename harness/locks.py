"""One process at a time, by a lock file the kernel gives up with its holder. Standard library only: the bootstrap uses it."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class Taken(Exception):
    """Another process holds the lock, and waiting was not asked for."""


@contextmanager
def held(path: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold `path` (made if need be). If another process does: call `on_wait` and wait, or raise Taken where there is none."""
    with path.open("w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is None:
                raise Taken from None
            on_wait()
            fcntl.flock(f, fcntl.LOCK_EX)
        yield
