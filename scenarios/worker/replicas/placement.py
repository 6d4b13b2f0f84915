"""Starts replicas, each at its place. The transport is not known here: a replica gets an address
and connects by itself. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from formats.job import Job
from sut.devices import DEVICES

SECRET = "REPLICA_SECRET"
"""The environment variable that hands the secret to a replica. The replica removes it."""
NODE = "REPLICA_NODE"
"""The environment variable with a cluster's name of the node, which its system may not know."""
LOG = "worker.log"
"""The output of a replica, in its folder."""
CLUSTER_LOG = "cluster.log"
"""The output of the program that lets a cluster start replicas, in the test's folder."""
INHERITED = "-"
"""In place of a host: the replica inherits its connection."""
_LOOK_S, _PATIENCE_S = 0.05, 8.0
_C = ctypes.CDLL(None)


class Placement(Protocol):
    """Starts and ends replicas."""

    def start(self, address: tuple[str, int], secret: bytes) -> None:
        """Start all replicas, which connect to an address. They get the secret in their
        environment.
        """

    def ended(self, number: int, seconds: float = 0) -> str:
        """Return how a replica ended, after at most so many seconds. Empty: it runs, or it is not
        known how it ended.
        """

    def failed(self) -> str:
        """Return why no replica can go on. Empty: nothing is known against it."""

    def stop(self, seconds: float = 0) -> None:
        """Wait at most so long for the ends of all replicas, and then end them."""


class Subprocesses:
    """Replicas as processes of this machine. Each is pinned to the cores of its place, or sees the
    accelerator of its place. The kernel ends them if this process dies.
    """

    def __init__(self, job: Job):
        self._job = job
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, address: tuple[str, int], secret: bytes) -> None:
        """Start the replicas. Their output goes to LOG of their folders below the test's."""
        for number in range(len(self._job.places)):
            self._processes.append(self._started(number, address, secret))

    def _started(
        self, number: int, address: tuple[str, int], secret: bytes
    ) -> subprocess.Popen[bytes]:
        place = self._job.places[number]
        chosen = [place.device] if place.device else []
        device = DEVICES[self._job.workload.device].environment(os.environ, chosen)
        directory = folder(self._job, number)
        directory.mkdir(exist_ok=True)
        host, port = address
        words = (str(os.getpid()), host, str(port), str(number), self._job.log_dir / "job.json")
        with (directory / LOG).open("wb") as log, pinned(place.cores):
            return subprocess.Popen(
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

    def failed(self) -> str:
        """Return nothing, because each replica has a process of its own."""
        return ""

    def stop(self, seconds: float = 0) -> None:
        """Wait at most so long for the ends of all replicas, and then kill them."""
        end_s = time.monotonic() + seconds
        for number, process in enumerate(self._processes):
            self.ended(number, max(0.0, end_s - time.monotonic()))
            process.kill()
            process.wait()


class Launched:
    """Replicas that a program of a cluster starts on its nodes (`formats.job.Launch`). Its output
    has a line `task NUMBER: WORDS` for a replica that did not end well, in the cluster's words. The
    program ends when all replicas have ended, or one badly.

    The environment of this process becomes that of the replicas. Which accelerator a replica sees
    is decided by the cluster.
    """

    def __init__(self, job: Job):
        self._job = job
        self._log = job.log_dir / CLUSTER_LOG
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, address: tuple[str, int], secret: bytes) -> None:
        """Start the program. The kernel ends it if this process dies."""
        assert self._job.launch
        host, port = address
        step = (sys.executable, "-P", "-m", "scenarios.worker.replicas.step")
        words = (host, str(port), str(self._job.log_dir / "job.json"))
        environment = {**os.environ, SECRET: secret.hex()}
        environment.pop(DEVICES[self._job.workload.device].chosen_by or "", None)
        self._log.unlink(missing_ok=True)
        with self._log.open("ab") as log:  # processes on nodes append to it, too
            self._process = subprocess.Popen(
                [*self._job.launch.command, *step, *words],
                cwd=self._job.log_dir,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # it would not give its nodes back if it were killed
                preexec_fn=_end_with_parent,
            )

    def ended(self, number: int, seconds: float = 0) -> str:
        """Return how a replica ended, after at most so many seconds. Empty: its end is not in the
        program's output.
        """
        end_s = time.monotonic() + seconds
        pattern = re.compile(rf"\btask {number}: (.+)")
        while True:
            found = pattern.search(self._output())
            if found:
                return f"ended ({found[1].strip()})"
            if time.monotonic() >= end_s:
                return ""
            time.sleep(_LOOK_S)

    def failed(self) -> str:
        """Return how the program ended: its words on a replica, or its last ones. Empty: it runs.
        All replicas end with it.
        """
        code = self._process.poll() if self._process else None
        if code is None:
            return ""
        output = self._output()
        lines = [line.strip() for line in output.splitlines()]
        words = next((line for line in reversed(lines) if line), "it printed nothing")
        if on_replica := re.search(r"\btask \d+: .+", output):
            words = on_replica[0]
        if code < 0:
            words = f"its program was killed by signal {signal.Signals(-code).name}"
        return f"the cluster does not run the replicas any more: {words}; see {self._log}"

    def _output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def stop(self, seconds: float = 0) -> None:
        """Wait at most so long for the ends of all replicas, and then end the program, which ends
        them.
        """
        if self._process is None:
            return
        for end in (lambda: None, self._process.terminate, self._process.kill):
            end()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                return
            seconds = _PATIENCE_S


def _end_with_parent() -> None:
    """On Linux: let the kernel end this process (SIGTERM) when its parent dies."""
    if sys.platform == "linux":
        _C.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def node() -> str:
    """The name of the node on which this process runs."""
    return os.environ.get(NODE) or os.uname().nodename


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
