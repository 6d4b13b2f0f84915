"""Lock files that let one process run at a time. The kernel releases a lock when its process ends.
Standard library only, because the bootstrap uses this module.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.messages import Waiting


class Taken(Exception):
    """Another process holds the lock, and the caller does not wait."""


@contextmanager
def held(path: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file `path`, which is created if it is missing. If another process holds it,
    call `on_wait` and wait. Without `on_wait`, raise Taken.
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
    """Open the lock file for writing, which a lock on NFS needs. Another user's file is opened for
    reading, which is enough on a local disk.

    Raises OSError if it is a link or no regular file. Another user may have put one in a folder
    that all may write to.
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
    """Lock this machine while a cell is prepared and measured. Two cells at a time would disturb
    each other, so the second waits and says so.

    If the lock file cannot be used, a message says so and the cell is measured. Disturbances are
    recorded while a test runs.
    """
    path = Path(tempfile.gettempdir()) / "keras-mlperf-harness.lock"
    try:
        handle = _opened(path)
        with suppress(OSError):
            os.fchmod(handle, 0o666)  # independent of the first user's umask
    except OSError as e:
        say(Waiting.NO_LOCK.format(path=path, error=e.strerror or e))
        yield
        return
    with _lock(handle, lambda: say(Waiting.OTHER_CELL)):
        yield
