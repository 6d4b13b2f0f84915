"""The processes that the harness and its workers start. Standard library only."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from scenarios.worker import host_memory

_C = ctypes.CDLL(None)  # loaded here, because a child must not load it between fork and exec


class Child(subprocess.Popen[bytes]):
    """A process whose output goes to a file.

    Attributes:
        oom_kills: how many processes the kernel had killed for want of memory when it began.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        log: Path,
        environment: Mapping[str, str] | None = None,
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


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """On Linux: let the kernel send a signal to this process when its parent dies. For `preexec_fn`
    of a child.
    """
    if sys.platform == "linux":
        _C.prctl(1, number)  # PR_SET_PDEATHSIG


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
