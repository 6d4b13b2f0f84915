"""Lock files that let one process run at a time. The kernel releases a lock when its process ends.
Standard library only, because the bootstrap uses this module.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_MOST_BYTES = 2000  # of the text in the machine's lock
_OTHER_CELL = (
    "waiting: another cell is being measured on this machine, and two at a time would disturb each"
    " other"
)


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
def machine(say: Callable[[str], None], command: str, seconds: float = 0.0) -> Iterator[None]:
    """Lock this machine while a cell is prepared and measured. Two cells at a time would disturb
    each other, so the second waits and says so.

    Who waits holds the lock of the queue, and a sweep needs that lock before each of its cells. So
    the cell of another command is measured between two cells of a sweep.

    If a lock file cannot be used, a message says so and the cell is measured. Disturbances are
    recorded while a test runs.

    Args:
        command: told to those who wait.
        seconds: about how long the lock is held; 0: not known.
    """
    path = Path(tempfile.gettempdir()) / "keras-mlperf-harness.lock"
    try:
        handle = _shared(path)
        queue = _shared(path.with_suffix(".queue"))
    except OSError as e:
        error = e.strerror or e
        say(
            f"this command does not wait for cells of other commands, because the lock {path}"
            f" cannot be used ({error})"
        )
        yield
        return
    with ExitStack() as stack:
        with _lock(queue, lambda: say(_waiting(handle))):
            stack.enter_context(_lock(handle, lambda: say(_waiting(handle))))
        facts = {"command": command, "since": time.time(), "seconds": seconds}
        with suppress(OSError):  # another user's file
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(facts).encode(), 0)
        yield


def _shared(path: Path) -> int:
    """Open a lock file of all users."""
    handle = _opened(path)
    with suppress(OSError):
        os.fchmod(handle, 0o666)  # independent of the first user's umask
    return handle


def _waiting(handle: int) -> str:
    """Say that another cell is measured, and which one, as far as its process wrote it down."""
    try:
        facts = json.loads(os.pread(handle, _MOST_BYTES, 0))
        since_s = float(facts["since"])
        seconds = float(facts["seconds"])
        command = "".join(filter(str.isprintable, facts["command"]))
        since = time.strftime("%H:%M:%S", time.localtime(since_s))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return _OTHER_CELL
    left_s = since_s + seconds - time.time()
    left = f"about {left_s / 60:.0f} min more" if left_s > 60 else "it should end soon"
    return f"{_OTHER_CELL}: {command}, since {since}; {left}"
