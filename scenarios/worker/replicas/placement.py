"""Starts replicas, each at its place. The transport is not known here: a replica gets an address
and connects by itself.

Another placement (a step of a batch system, an actor of a cluster) is another class with the
methods of `Placement`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from formats.job import Job
from scenarios.worker.replicas.link import SECRET
from sut.devices import DEVICES


class Placement(Protocol):
    """Starts and ends replicas."""

    def start(self, number: int, address: tuple[str, int], secret: bytes) -> None:
        """Start a replica that connects to an address. It gets the secret in its environment."""

    def ended(self, number: int, seconds: float = 0) -> str:
        """Return how a replica ended, after at most so many seconds. Empty: it runs."""

    def stop(self, seconds: float = 0) -> None:
        """Wait at most so long for the ends of all replicas, and then end them."""


class Subprocesses:
    """Replicas as processes of this machine. Each is pinned to the cores of its place, or sees the
    accelerator of its place. The kernel ends them if this process dies.
    """

    def __init__(self, job: Job):
        self._job = job
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int, address: tuple[str, int], secret: bytes) -> None:
        """Start a replica. Its output goes to `worker.log` of its folder below the test's."""
        place = self._job.places[number]
        chosen = [place.device] if place.device else []
        device = DEVICES[self._job.workload.device].environment(os.environ, chosen)
        directory = folder(self._job, number)
        directory.mkdir(exist_ok=True)
        host, port = address
        words = (str(os.getpid()), host, str(port), str(number), self._job.log_dir / "job.json")
        with (directory / "worker.log").open("wb") as log, pinned(place.cores):
            self._processes[number] = subprocess.Popen(
                [sys.executable, "-P", "-m", "scenarios.worker.replica", *words],
                cwd=directory,
                env={**device, SECRET: secret.hex()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def ended(self, number: int, seconds: float = 0) -> str:
        """Return how a replica ended, after at most so many seconds. Empty: it runs."""
        process = self._processes[number]
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        code = process.returncode
        if code is None:
            return ""
        if code < 0:
            return f"was killed by signal {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def stop(self, seconds: float = 0) -> None:
        """Wait at most so long for the ends of all replicas, and then kill them."""
        end_s = time.monotonic() + seconds
        for number, process in self._processes.items():
            self.ended(number, max(0.0, end_s - time.monotonic()))
            process.kill()
            process.wait()


def folder(job: Job, number: int) -> Path:
    """The folder of a replica, with its output and its heartbeat."""
    return job.log_dir / f"replica-{number}"


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
