"""Slurm as a cluster, by its own commands: sbatch, squeue and scancel.

The script calls the plain command itself, so it can be read, and submitted by hand. States come
from squeue, because sacct needs a database of jobs that many clusters do not have.
"""

from __future__ import annotations

import getpass
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence

from harness.cluster.jobs import Job, State, script_line
from harness.comparison.statistics import plural
from harness.errors import EnvironmentFailure
from harness.execution import clusters

_PROGRAMS = ("sbatch", "squeue", "scancel")
OURS = ("job-name", "nodes", "exclusive", "output", "error", "array", "chdir", "wrap")
"""Options of sbatch that every script sets, or that would make another script."""
_HIDING = re.compile(r"SQUEUE_|SCANCEL_|SLURM_CLUSTERS$|SBATCH_(ARRAY_INX|CLUSTERS|JOB_NAME)$")
"""Environment variables of Slurm with which a job would not be found by its name."""
_DEFAULTS = {"mem": "0"}
"""All of the node's memory: an exclusive node comes with all processors, and without this with
little memory.
"""
_ENDED = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
)
_EXITED = ("COMPLETED", "FAILED")
_QUEUED = ("None", "Priority", "Resources")
"""Reasons why a job waits that are no fault."""
_FIELDS = "%j|%A|%T|%r|%N"  # name, number, state, reason, nodes


class Slurm:
    """Jobs of Slurm, each on one node that it shares with no other job.

    Args:
        options: options of sbatch → values.
    """

    def __init__(self, options: Mapping[str, str]):
        self.options = {**_DEFAULTS, **options}

    def check(self) -> None:
        """Raises EnvironmentFailure if this machine has no commands of Slurm."""
        clusters.check_programs(_PROGRAMS, "a machine from which you submit jobs")

    def text(self, job: Job) -> str:
        """The script for sbatch."""
        log, *others = job.needed
        options = [f"#SBATCH --{name}={shlex.quote(value)}" for name, value in self.options.items()]
        lines = [
            "#!/bin/bash",
            f"#SBATCH --job-name={job.name}",
            "#SBATCH --nodes=1",
            "#SBATCH --exclusive",
            "#SBATCH --output=/dev/null",
            *options,
            "",
            f"log={shlex.quote(str(log))}",
            '[ -e "$log" ] || exit 73  # this node does not see the folder',
            'exec >>"$log" 2>&1',
            f"for path in {script_line(others)}; do",
            '    [ -e "$path" ] || { echo "error: node $(hostname) does not see $path"; exit 73; }',
            "done",
            f"cd {shlex.quote(str(job.place))}",
            'echo "node $(hostname), job $SLURM_JOB_ID"',
            f"exec {script_line(job.command)}",
        ]
        return "\n".join(lines) + "\n"

    def submit(self, jobs: Sequence[Job]) -> None:
        """Submit jobs. Raises EnvironmentFailure with sbatch's own words."""
        for count, job in enumerate(jobs):
            done = _run(["sbatch"], self.text(job))
            if done.returncode:
                words = " ".join(done.stderr.split())
                if count:
                    before = plural(count, "job")
                    words = f"{words}; already submitted: {before}, which the same command follows"
                raise EnvironmentFailure(f"sbatch refused the job {job.name}: {words}")

    def states(self, jobs: Sequence[Job]) -> Mapping[str, State] | None:
        """Name of a job → its state. Slurm forgets a job some minutes after its end."""
        names = ",".join(job.name for job in jobs)
        user = getpass.getuser()
        flags = ["--noheader", "--states=all", f"--user={user}", f"--name={names}"]
        done = _run(["squeue", *flags, f"--format={_FIELDS}"])
        if done.returncode:
            return None
        states: dict[str, State] = {}
        for line in sorted(done.stdout.splitlines(), key=_number):
            name, number, state, reason, node = line.split("|")
            words = state if reason in ("None", "") else f"{state} ({reason})"
            states[name] = State(
                id=number,
                live=state not in _ENDED,
                words=words,
                node=node,
                queued=state == "PENDING" and reason in _QUEUED,
                exited=state in _EXITED,
            )
        return states

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Cancel jobs by their names."""
        for job in jobs:
            _run(["scancel", f"--user={getpass.getuser()}", f"--name={job.name}"])


def _number(line: str) -> int:
    return int(line.split("|")[1])


def _run(command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if not _HIDING.match(name)}
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, env=variables
    )
