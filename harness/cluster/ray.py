"""Ray as a cluster. Ray runs in an environment of its own (`environments/cluster-ray.in`), in a
process of its own. Its tasks only start the plain command, which knows nothing of Ray.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from harness.cluster.jobs import Job, State, script_line
from harness.errors import EnvironmentFailure
from harness.execution import clusters
from harness.execution.interpreter import die_with_parent
from sut import variables

_STATES, _LOG = "ray.json", "ray.log"
_PATIENCE_S = 30.0


class Ray:
    """Tasks of Ray, each on one node, of which it takes all processors and accelerators.

    The tasks end with the command that started them.

    Args:
        address: the address of the cluster; `auto`: that of this machine.
        accelerator: whether only nodes with a GPU are used.
        cache: the folder of environments.
        say: prints what is made.
    """

    def __init__(self, address: str, accelerator: bool, cache: Path, say: Callable[[str], None]):
        self.address = address
        self.accelerator = accelerator
        self.cache = cache
        self.say = say
        self.driver: subprocess.Popen[bytes] | None = None

    def check(self) -> None:
        """Make Ray's environment, if it is missing. Raises EnvironmentFailure."""
        clusters.make_ray(self.cache, self.say)

    def text(self, job: Job) -> str:
        """The command that a task starts."""
        return f"{script_line(job.command)}\n"

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start a process that gives the jobs to Ray. Raises EnvironmentFailure with its last words
        if Ray does not answer.
        """
        if not jobs:
            return
        folder = jobs[0].folder
        (folder / _STATES).unlink(missing_ok=True)
        document = {
            "address": self.address,
            "accelerator": self.accelerator,
            "variables": variables.read_by_any(os.environ),
            "jobs": [_as_document(job) for job in jobs],
        }
        python = clusters.ray_python(self.cache)
        module = "harness.cluster.ray_driver"
        command = [str(python), "-P", "-m", module, str(folder / _STATES)]
        with (folder / _LOG).open("wb") as log:
            self.driver = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        assert self.driver.stdin
        with suppress(BrokenPipeError):  # `states` says why it ended
            self.driver.stdin.write(json.dumps(document).encode())
            self.driver.stdin.close()

    def states(self, jobs: Sequence[Job]) -> Mapping[str, State] | None:
        """Name of a job → its state. Raises EnvironmentFailure with the process' last words if it
        ended too early.
        """
        if self.driver is None:
            return {}
        folder = jobs[0].folder
        code = self.driver.poll()
        states: dict[str, State] = {}
        with suppress(FileNotFoundError):
            document = json.loads((folder / _STATES).read_text(encoding="utf-8"))
            states = {name: State(**fields) for name, fields in document.items()}
        if code:
            lines = (folder / _LOG).read_text(encoding="utf-8", errors="replace").splitlines()
            words = next((line for line in reversed(lines) if line.strip()), f"exit code {code}")
            raise EnvironmentFailure(f"--on: Ray at {self.address} cannot run the jobs: {words}")
        if code == 0:
            return {name: _ended(state) for name, state in states.items()}
        if states:
            return states
        return {job.name: _waits(job) for job in jobs}

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End all tasks, if one of the jobs waits or runs."""
        if not jobs or self.driver is None or self.driver.poll() is not None:
            return
        self.driver.terminate()
        try:
            self.driver.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.driver.kill()


def _ended(state: State) -> State:
    """The state after the process that talks to Ray ended, because tasks end with it."""
    return (
        replace(state, live=False, words="the process that talks to Ray was ended")
        if state.live
        else state
    )


def _waits(job: Job) -> State:
    """The state of a job before Ray answered."""
    return State(id=job.name, live=True, words="waits for Ray", queued=True)


def _as_document(job: Job) -> dict[str, object]:
    return {
        "name": job.name,
        "command": job.command,
        "log": str(job.log),
        "place": str(job.place),
        "needed": [str(path) for path in job.needed],
    }
