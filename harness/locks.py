"""One process at a time, by a lock file the kernel gives up with its holder. Standard library only:
the bootstrap uses it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Taken(Exception):
    """Another process holds the lock, and waiting was not asked for."""


@contextmanager
def held(path: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold `path` (made if need be). If another process does: call `on_wait` and wait, or raise
    Taken where there is none.
    """
    with _lock(_opened(path), on_wait):
        yield


@contextmanager
def _lock(handle: int, on_wait: Callable[[], None] | None) -> Iterator[None]:
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
    """For writing, which a lock on NFS needs; another user's file for reading, which a lock on a
    local disk is content with.

    Raises OSError where the name leads elsewhere or to no regular file: a link or a pipe in a
    folder that all may write to.
    """
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        handle = os.open(path, flags | os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        handle = os.open(path, flags | os.O_RDONLY)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path} is no regular file")
    return handle


@contextmanager
def machine(say: Callable[[str], None]) -> Iterator[None]:
    """Held while a cell is made and measured: two at one time on one machine would both be measured
    wrong. The second waits, and says so.

    Where the lock cannot be had at all, that is said, and the cell is measured: what disturbs a
    test is seen while it runs.
    """
    path = Path(tempfile.gettempdir()) / "keras-mlperf-harness.lock"
    try:
        handle = _opened(path)
        with suppress(OSError):
            os.fchmod(handle, 0o666)  # whatever the umask of the first user
    except OSError as e:
        say(
            f"cells of other commands are not waited for: the lock {path} cannot be used"
            f" ({e.strerror or e})"
        )
        yield
        return
    with _lock(
        handle,
        lambda: say(
            "waiting: another cell is being measured on this machine, and two at a time would"
            " disturb each other"
        ),
    ):
        yield
