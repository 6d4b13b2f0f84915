"""The processes that the harness and its workers start. Standard library only."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from formats.workload import Variables
from scenarios.worker.system import host_memory

_C = ctypes.CDLL(None)  # loaded here, because a child must not load it between fork and exec
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class _Ending(Protocol):
    """How a child process ended.

    Attributes:
        oom_kills: how many processes the kernel had killed for want of memory when it began.
    """

    oom_kills: int
    returncode: int | None

    def poll(self) -> int | None:
        """Return its exit code, or the negative number of its signal. None: it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. → as `poll`. Raises subprocess.TimeoutExpired after so many seconds."""

    def kill(self) -> None:
        """Kill it."""

    def how(self, seconds: float = 0, where: str = "") -> str:
        """Return how it ended, after at most so many seconds. Empty: it runs.

        `where`: in words, what it did.
        """
        with suppress(subprocess.TimeoutExpired):
            self.wait(seconds)
        code = self.returncode
        if code is None:
            return ""
        if code < 0:
            return f"was killed{where} by signal {signal.Signals(-code).name}"
        return f"ended{where} with exit code {code}"

    @property
    def is_out_of_memory(self) -> bool:
        """Whether it was killed, and the kernel has killed a process for want of memory."""
        is_killed = self.poll() == -signal.SIGKILL
        return is_killed and host_memory.kernel_oom_kills() > self.oom_kills

    def end(self, seconds: float = 0) -> None:
        """Wait at most so long for its end, and then kill it."""
        self.how(seconds)
        self.kill()
        self.wait()


class Child(subprocess.Popen[bytes], _Ending):
    """A process whose output goes to a file."""

    def __init__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        log: Path,
        environment: Variables | None = None,
        cores: Sequence[int] = (),
        **settings: Any,
    ):
        """Start it in a folder, and pin it to cores. `settings`: further ones of Popen."""
        self.oom_kills = host_memory.kernel_oom_kills()
        log.unlink(missing_ok=True)
        with log.open("ab") as output, pinned(cores):  # further processes may append to it, too
            super().__init__(
                command,
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=output,
                **{"stdin": subprocess.DEVNULL, **settings},
            )


class Forked(_Ending):
    """A child process that another process forked (`scenarios.worker.zygote`).

    Attributes:
        pid: its process id, which is also that of its group.
        stdin: its input.
    """

    def __init__(self, pid: int, stdin: IO[bytes]):
        self.oom_kills = host_memory.kernel_oom_kills()
        self.pid = pid
        self.stdin = stdin
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """See `_Ending`."""
        return self._look(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        """See `_Ending`."""
        if timeout is not None and self.poll() is None:
            handle = os.pidfd_open(self.pid)
            select.select([handle], [], [], timeout)
            os.close(handle)
            if self.poll() is None:
                raise subprocess.TimeoutExpired("a forked worker", timeout)
        code = self._look(0)
        assert code is not None
        return code

    def kill(self) -> None:
        """See `_Ending`."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _look(self, options: int) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, options)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Let the kernel send a signal to this process when its parent dies. For `preexec_fn` of a
    child.
    """
    _C.prctl(_PR_SET_PDEATHSIG, number)


@contextmanager
def adopting() -> Iterator[None]:
    """A context in which this process becomes the parent of those processes below it whose own
    parent ends.
    """
    _C.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        _C.prctl(_PR_SET_CHILD_SUBREAPER, 0)


@contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Let processes that this thread starts run only on these cores. Without cores nothing changes.

    The processes inherit it before they count their cores, and frameworks start as many threads.
    """
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
