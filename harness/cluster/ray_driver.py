"""Give jobs to Ray: `python -m harness.cluster.ray_driver STATES` reads a document from standard
input, as `harness.cluster.ray` writes it, and keeps the states of the jobs in the file STATES.

It runs in Ray's environment, so it imports nothing of the harness.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_LOOK_S = 1.0


def measure(job: Mapping[str, Any], variables: Mapping[str, str]) -> str:
    """Run the command of a job on a node. → how it ended.

    Variables that Ray set do not reach the command. Variables that a framework reads are those of
    the user's shell. Ray sends this function to the nodes, so it imports all that it needs.
    """
    import ctypes
    import os
    import signal
    import socket
    import subprocess

    for path in job["needed"]:
        if not os.path.exists(path):  # noqa: PTH110
            return f"node {socket.gethostname()} does not see {path}"
    by_ray = ("RAY_", "PYTHON", "OMP_NUM_THREADS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(by_ray)}
    if not kept.get("CUDA_VISIBLE_DEVICES", "0"):
        del kept["CUDA_VISIBLE_DEVICES"]  # Ray sets it to nothing if a task requests no GPU
    job_id = os.environ.get("RAY_JOB_ID", "unknown")  # the record names the node because of it

    def end_with_task() -> None:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG

    with open(job["log"], "ab", buffering=0) as log:  # noqa: PTH123
        log.write(f"node {socket.gethostname()}, Ray's job {job_id}\n".encode())
        done = subprocess.run(
            job["command"],
            cwd=job["place"],
            env={**kept, **variables, "RAY_JOB_ID": job_id},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=end_with_task,
            check=False,
        )
    return f"exit code {done.returncode}"


class Driver:
    """Jobs, and the nodes on which they run.

    Attributes:
        needed: the resource that a node must have.
        running: reference of a task → (its job, its node).
    """

    def __init__(self, document: Mapping[str, Any], states: Path):
        self.document = document
        self.needed = "GPU" if document["accelerator"] else "CPU"
        self.path = states
        self.waiting = deque(document["jobs"])
        self.running: dict[Any, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self.states: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        """Run all jobs, one at a time on each node."""
        while self.waiting or self.running:
            for node in self._free():
                if self.waiting:
                    self._begin(self.waiting.popleft(), node)
            self._note_waiting()
            self._write()
            if not self.running:
                time.sleep(_LOOK_S)
                continue
            done, _ = ray.wait(list(self.running), timeout=_LOOK_S)
            for reference in done:
                job, node = self.running.pop(reference)
                self._note(job, live=False, node=_name(node), **_end(reference))
        self._write()

    def end(self) -> None:
        """End all tasks."""
        for reference in self.running:
            ray.cancel(reference, force=True)

    def _free(self) -> Sequence[Mapping[str, Any]]:
        """The nodes without a task of ours. With `accelerator`, only those with a GPU."""
        taken = {node["NodeID"] for _, node in self.running.values()}
        alive = [node for node in ray.nodes() if node["Alive"]]
        fit = [node for node in alive if node["Resources"].get(self.needed, 0) >= 1]
        return [node for node in fit if node["NodeID"] not in taken]

    def _begin(self, job: Mapping[str, Any], node: Mapping[str, Any]) -> None:
        task = ray.remote(measure).options(
            num_cpus=node["Resources"].get("CPU", 0),
            num_gpus=node["Resources"].get("GPU", 0),
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            max_retries=0,
        )
        reference = task.remote(job, self.document["variables"])
        self.running[reference] = (job, node)
        self._note(job, live=True, words="assigned", node=_name(node))

    def _note_waiting(self) -> None:
        """Note the jobs that wait. If no job runs, no node fits, which the user should see."""
        words = "waits for a node"
        if not self.running:
            words = f"waits: no node has a {self.needed}"
        for job in self.waiting:
            self._note(job, live=True, words=words, queued=bool(self.running))

    def _note(self, job: Mapping[str, Any], **facts: Any) -> None:
        """Note the state of a job: the fields of `harness.cluster.jobs.State`."""
        self.states[job["name"]] = {"id": job["name"], **facts}

    def _write(self) -> None:
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.states), encoding="utf-8")
        partial.replace(self.path)


def _end(reference: Any) -> dict[str, Any]:
    """How a task ended: `words` and `exited` of its state. If Ray ended it, the first sentence of
    Ray's own words.
    """
    try:
        return {"words": ray.get(reference), "exited": True}
    except RayError as e:
        sentence = " ".join(str(e).partition(". ")[0].split())
        return {"words": f"{type(e).__name__}: {sentence}"}


def _name(node: Mapping[str, Any]) -> str:
    return str(node["NodeManagerHostname"])


def _terminate(number: int, frame: object) -> NoReturn:
    raise SystemExit(0)


def main(states: Path) -> None:
    """Connect to the cluster, and run the jobs of the document on standard input."""
    document = json.load(sys.stdin)
    signal.signal(signal.SIGTERM, _terminate)
    ray.init(address=document["address"], log_to_driver=False)
    driver = Driver(document, states)
    try:
        driver.run()
    finally:
        driver.end()
        ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
