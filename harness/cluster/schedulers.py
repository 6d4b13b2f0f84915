"""Slurm and Ray as schedulers of an array of jobs, each of which gets a whole node.

Slurm is used by its own commands. States come from squeue, because sacct needs a database of jobs
that many clusters do not have. Ray is used by `harness.cluster.ray_tasks`.
"""

from __future__ import annotations

import getpass
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.cluster.array import Array
from harness.errors import EnvironmentFailure
from harness.execution import clusters
from scenarios.worker.child import Child, end_with_parent
from sut.devices import DEVICES

OURS = "array chdir error exclusive job-name nodes output wrap"
"""Options of sbatch that the script sets, or that would make another one, with spaces between."""
_HIDING = re.compile(
    r"SQUEUE_|SCANCEL_|SLURM_CLUSTERS$|SBATCH_(ARRAY_INX|CLUSTERS|ERROR|JOB_NAME|OUTPUT)$"
)
"""Environment variables of Slurm with which a job or its log would not be found."""
_ENDED = (
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED"
    " TIMEOUT"
)
_TURN = ("None", "Priority", "Resources")
"""Reasons why a job waits that are no fault."""
_FIELDS = "%F|%K|%T|%r|%N"  # number of the array, number in it, state, reason, node
_PATIENCE_S = 30.0


class Jobs(NamedTuple):
    """The jobs of an array.

    Attributes:
        states: number of a job → its last state in the cluster's own words; empty: it waits for its
            turn.
        live: the numbers of those that wait or run.
    """

    states: Mapping[int, str]
    live: set[int]


class Slurm:
    """Jobs of Slurm, which outlive the command."""

    def submit(self, array: Array, numbers: Sequence[int]) -> None:
        """Submit the script of the array. Raises EnvironmentFailure with sbatch's own words."""
        done = _run("sbatch", str(array.script))
        if done.returncode:
            words = " ".join(done.stderr.split())
            raise EnvironmentFailure(f"sbatch refused the jobs {array.job_name}: {words}")

    def jobs(self, array: Array) -> Jobs | None:
        """The last job of each number. Slurm forgets a job some minutes after its end. None: Slurm
        does not answer now.
        """
        flags = ["--noheader", "--array", "--states=all", f"--format={_FIELDS}"]
        done = _run("squeue", *flags, *_own(array))
        if done.returncode:
            return None
        states = {}
        live = set()
        lines = [line.split("|") for line in done.stdout.splitlines()]
        for _, number, state, reason, node in sorted(lines, key=lambda fields: int(fields[0])):
            words = state if reason in ("None", "") else f"{state} ({reason})"
            if state == "PENDING" and reason in _TURN:
                words = ""
            states[int(number)] = f"{words} on {node}" if node else words
            live.discard(int(number))
            if state not in _ENDED.split():
                live.add(int(number))
        return Jobs(states, live)

    def cancel(self, array: Array) -> None:
        """Cancel all jobs that wait or run."""
        _run("scancel", *_own(array))


def _own(array: Array) -> list[str]:
    return [f"--user={getpass.getuser()}", f"--name={array.job_name}"]


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if not _HIDING.match(name)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)


class Ray:
    """Tasks of Ray, which end with the command.

    Args:
        address: the address of the cluster; `auto`: that of this machine.
        accelerator: whether only nodes with a GPU are used.
        cache: the folder of environments.
    """

    def __init__(self, address: str, accelerator: bool, cache: Path):
        self.address = address
        self.resource = "GPU" if accelerator else "CPU"
        self.cache = cache
        self.numbers: Sequence[int] = ()
        self.driver: Child | None = None

    def submit(self, array: Array, numbers: Sequence[int]) -> None:
        """Start the process that gives the jobs to Ray."""
        self.numbers = numbers
        words = ["array", self.address, self.resource, ",".join(map(str, numbers))]
        by_node = [device.chosen_by for device in DEVICES.values()]
        self.driver = Child(
            [*clusters.ray_tasks(self.cache), *words, "/bin/bash", str(array.script)],
            array.folder,
            array.folder / "ray.log",
            {name: value for name, value in os.environ.items() if name not in by_node},
            preexec_fn=end_with_parent,
        )

    def jobs(self, array: Array) -> Jobs:
        """The jobs of this command. Raises EnvironmentFailure with the process' last words if it
        failed.
        """
        if self.driver is None:
            return Jobs({}, set())
        code = self.driver.poll()
        text = (array.folder / "ray.log").read_text(encoding="utf-8", errors="replace")
        if code:
            lines = [line for line in text.splitlines() if line.strip()]
            words = lines[-1] if lines else f"exit code {code}"
            raise EnvironmentFailure(f"--on: Ray at {self.address} cannot run the jobs: {words}")
        states = re.findall(r"^task (\d+): (.*)$", text, re.MULTILINE)
        live = set(self.numbers) if code is None else set()
        return Jobs({int(number): words for number, words in states}, live)

    def cancel(self, array: Array) -> None:
        """End all tasks."""
        if self.driver:
            self.driver.terminate()
            self.driver.end(_PATIENCE_S)
