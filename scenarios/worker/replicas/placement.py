"""Starts replicas, each at its place. The transport is not known here: a replica gets an address
and connects by itself. Standard library only.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from functools import partial
from pathlib import Path

from formats.job import Job
from scenarios.worker.child import Child, end_with_parent
from sut.devices import DEVICES

SECRET = "REPLICA_SECRET"
"""The environment variable that hands the secret to a replica. The replica removes it."""
NODE = "REPLICA_NODE"
"""The environment variable with a cluster's name of the node, which its system may not know."""
LOG = "worker.log"
"""The output of a replica, in its folder."""
CLUSTER_LOG = "cluster.log"
"""The output of the program that lets a cluster start replicas, in the test's folder."""
KILLED = "was killed by signal SIGKILL"
"""How a replica of this machine ended, if the kernel may have killed it for want of memory."""
INHERITED = "-"
"""In place of a host: the replica inherits its connection."""
_LOOK_S = 0.05
_PATIENCE_S = 8.0


class Subprocesses:
    """Replicas as processes of this machine. Each is pinned to the cores of its place, or sees the
    accelerator of its place. The kernel ends them if this process dies.
    """

    def __init__(self, job: Job):
        self._job = job
        self._processes: list[Child] = []

    def start(self, address: tuple[str, int], secret: bytes) -> None:
        """Start the replicas. Their output goes to LOG of their folders below the test's."""
        job = self._job
        device = DEVICES[self._job.workload.device]
        host, port = address
        for number, place in enumerate(job.places):
            chosen = [place.device] if place.device else []
            environment = {**device.environment(os.environ, chosen), SECRET: secret.hex()}
            directory = folder(job, number)
            directory.mkdir(exist_ok=True)
            words = (str(os.getpid()), host, str(port), str(number), str(job.log_dir / "job.json"))
            command = [sys.executable, "-P", "-m", "scenarios.worker.replica", *words]
            log = directory / LOG
            self._processes.append(Child(command, directory, log, environment, place.cores))

    def ended(self, number: int, seconds: float = 0) -> str:
        """Return how a replica ended, after at most so many seconds. Empty: it runs."""
        return self._processes[number].how(seconds)

    def failed(self) -> str:
        """Return nothing, because each replica has a process of its own."""
        return ""

    def stop(self, seconds: float = 0) -> None:
        """Wait at most so long for the ends of all replicas, and then kill them."""
        end_s = time.monotonic() + seconds
        for process in self._processes:
            process.end(max(0.0, end_s - time.monotonic()))


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
        self._process: Child | None = None

    def start(self, address: tuple[str, int], secret: bytes) -> None:
        """Start the program. The kernel ends it if this process dies."""
        assert self._job.launch
        host, port = address
        step = (sys.executable, "-P", "-m", "scenarios.worker.replicas.step")
        words = (host, str(port), str(self._job.log_dir / "job.json"))
        environment = {**os.environ, SECRET: secret.hex()}
        environment.pop(DEVICES[self._job.workload.device].chosen_by or "", None)
        self._process = Child(
            [*self._job.launch.command, *step, *words],
            self._job.log_dir,
            self._log,
            environment,
            start_new_session=True,  # it would not give its nodes back if it were killed
            preexec_fn=partial(end_with_parent, signal.SIGTERM),
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
        if self._process and code < 0:
            words = f"its program {self._process.how()}"
        return f"the cluster does not run the replicas any more: {words}; see {self._log}"

    def _output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def stop(self, seconds: float = 0) -> None:
        """Wait at most so long for the ends of all replicas, and then end the program, which ends
        them.
        """
        if self._process and not self._process.how(seconds):
            self._process.terminate()
            self._process.end(_PATIENCE_S)


Placement = Subprocesses | Launched
"""Starts and ends replicas, which connect to an address by themselves."""


def node() -> str:
    """The name of the node on which this process runs."""
    return os.environ.get(NODE) or os.uname().nodename


def folder(job: Job, number: int) -> Path:
    """The folder of a replica, with its output and its heartbeat."""
    return job.log_dir / f"replica-{number}"
