"""Start replicas on the nodes of a Ray cluster, and end them:
`python -m harness.cluster.ray_replicas ADDRESS USED COUNT RESOURCE COMMAND…`.

COUNT replicas are spread over as many nodes as get an equal number of them, and the first USED are
started. A node gives each an accelerator (RESOURCE is GPU), cores (CPU), or nothing (none). One
task of Ray on each node runs COMMAND once for each replica there, with three more words: see
`scenarios.worker.replicas.step`. The environment of this process becomes that of the replicas.

The output has a line `task NUMBER: WORDS` for a replica that did not end well. This process ends
when all replicas have ended, or one badly, or when the head of the cluster does not answer.

It runs in Ray's environment, so it imports nothing of the harness.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_LOOK_S, _ANSWER_S, _SILENT = 1.0, 2.0, 2
"""The head counts as gone if it does not take a connection within two seconds, twice."""
_CHOSEN_BY = "CUDA_VISIBLE_DEVICES"
_NODE = "REPLICA_NODE"


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    place: str,
    numbers: Sequence[int],
    parts: int,
    devices: str,
) -> str:
    """Run the replicas of one node in the folder `place`. → how one ended badly, or nothing.

    Ray sends this function to the nodes, so it imports all that it needs.

    Args:
        numbers: the replicas, which are the first of `parts` on this node.
        devices: the variable in which Ray names a device for each; empty: they need none.
    """
    import ctypes
    import os
    import signal
    import subprocess
    import time

    def end_with_task() -> None:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG

    for path in (command[0], place):
        if not os.path.exists(path):  # noqa: PTH110
            return f"task {numbers[0]}: node {environment['REPLICA_NODE']} does not see {path}"
    named = os.environ.get(devices, "").split(",")
    children = {}
    with open(os.path.join(place, "cluster.log"), "ab") as log:  # noqa: PTH118, PTH123
        for part, number in enumerate(numbers):
            own = {devices: named[part]} if devices else {}
            children[number] = subprocess.Popen(
                [*command, str(number), str(part), str(parts)],
                cwd=place,
                env={**environment, **own},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_task,
            )
    codes = {number: child.poll() for number, child in children.items()}
    while None in codes.values() and not any(codes.values()):
        time.sleep(0.25)
        codes = {number: child.poll() for number, child in children.items()}
    for child in children.values():
        child.kill()
        child.wait()
    for number, code in codes.items():
        if code:
            how = f"killed by signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
            return f"task {number}: {how}"
    return ""


def spread(count: int, resource: str, nodes: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The nodes that get equally many of `count` replicas: as many nodes as possible, in the order
    of their names. Empty: there are no such nodes.
    """
    alive = sorted((node for node in nodes if node["Alive"]), key=name)
    for number in range(len(alive), 0, -1):
        each = count // number
        fit = [node for node in alive if resource == "none" or _amount(node, resource) >= each]
        if count % number == 0 and len(fit) >= number:
            return fit[:number]
    return []


def name(node: Mapping[str, Any]) -> str:
    """The name that the user gave to a node (`ray start --node-name`), or that of its system."""
    given = node.get("NodeName")
    is_given = given and given != node["NodeManagerAddress"]
    return str(given if is_given else node["NodeManagerHostname"])


def _amount(node: Mapping[str, Any], resource: str) -> float:
    return float(node["Resources"].get(resource, 0))


class Replicas:
    """The replicas of one command.

    Attributes:
        running: reference of a task → (the name of its node, the numbers of its replicas).
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]):
        self.command = command
        self.environment = environment
        self.running: dict[Any, tuple[str, Sequence[int]]] = {}

    def start(
        self, nodes: Sequence[Mapping[str, Any]], *, used: int, count: int, resource: str
    ) -> None:
        """Start the first `used` of `count` replicas on these nodes."""
        each = count // len(nodes)
        for first, node in zip(range(0, used, each), nodes, strict=False):
            numbers = range(first, min(first + each, used))
            task = ray.remote(run).options(
                num_cpus=_amount(node, "CPU") if resource == "CPU" else 0,
                num_gpus=each if resource == "GPU" else 0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
                max_retries=0,
            )
            reference = task.remote(
                self.command,
                {**self.environment, _NODE: name(node)},
                os.getcwd(),  # noqa: PTH109
                list(numbers),
                each,
                _CHOSEN_BY if resource == "GPU" else "",
            )
            self.running[reference] = (name(node), numbers)

    def wait(self, head: tuple[str, int]) -> str:
        """Wait until all replicas have ended, or one badly. → how, or nothing."""
        silent = 0
        while self.running:
            done, _ = ray.wait(list(self.running), timeout=_LOOK_S)
            for reference in done:
                if words := self._end(reference):
                    return words
            silent = 0 if _answers(head) else silent + 1
            if silent == _SILENT:
                return f"the head of the Ray cluster at {head[0]}:{head[1]} does not answer"
        return ""

    def _end(self, reference: Any) -> str:
        """How a task ended badly: of what Ray ended, the first sentence of Ray's own words."""
        node, numbers = self.running.pop(reference)
        try:
            return str(ray.get(reference))
        except RayError as e:
            sentence = " ".join(str(e).partition(". ")[0].split())
            words = f"Ray ended it on {node}, {type(e).__name__}: {sentence}"
            return "\n".join(f"task {number}: {words}" for number in numbers)

    def end(self) -> None:
        """End all tasks."""
        for reference in self.running:
            ray.cancel(reference, force=True)


def _answers(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, _ANSWER_S).close()
    except OSError:
        return False
    return True


def _head(address: str) -> tuple[str, int]:
    """The host and port at which this process reaches the head of the cluster."""
    _, _, client = address.partition("ray://")
    host, _, port = (client or ray.get_runtime_context().gcs_address).rpartition(":")
    return host.strip("[]"), int(port)


def _terminate(number: int, frame: object) -> NoReturn:
    raise SystemExit(1)


def main(argv: Sequence[str]) -> int:
    """Connect to the cluster, and run the replicas. `argv`: see the module. → the exit code."""
    _, address, used, count, resource, *command = argv
    environment = dict(os.environ)
    signal.signal(signal.SIGTERM, _terminate)
    ray.init(address=address, log_to_driver=False)
    nodes = spread(int(count), resource, ray.nodes())
    if not nodes:
        needed = f" with a {resource} for each"
        if resource == "none":
            needed = ""
        sys.stdout.write(f"no number of alive nodes can share {count} replicas equally{needed}\n")
        return 1
    head = _head(address)
    replicas = Replicas(command, environment)
    try:
        replicas.start(nodes, used=int(used), count=int(count), resource=resource)
        words = replicas.wait(head)
        if words:
            sys.stdout.write(f"{words}\n")
            sys.stdout.flush()
    finally:
        if not _answers(head):
            os._exit(1)  # Ray's own end would wait for the head
        replicas.end()
        ray.shutdown()
    return 1 if words else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
