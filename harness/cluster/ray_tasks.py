"""Run a command on the nodes of a Ray cluster, once for each number:
`python -m harness.cluster.ray_tasks KIND ADDRESS RESOURCE NUMBERS COMMAND…`.

`replicas`, with USED/COUNT as NUMBERS: COUNT replicas are spread over as many nodes as get an equal
number of them, and the first USED are started, all at once. Each gets an accelerator (RESOURCE is
GPU), cores (CPU), or nothing (none). If one ends badly, all are ended.

`array`, with NUMBERS such as 1,2,5: each runs on a node of its own, which has at least one of
RESOURCE, and gets all processors and accelerators of it.

COMMAND gets three more words: the number, its place among those of its node, and how many share the
node. Its environment and its folder are those of this process. The output has a line `task NUMBER:
WORDS` for what ended badly, and in `array` also for what begins or ends well. This process ends
when all have ended, or when the head of the cluster does not answer, and all end with it.

It runs in Ray's environment, so it imports nothing of the harness.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_LOOK_S = 1.0
_ANSWER_S = 2.0
_SILENT = 2
"""The head counts as gone if it does not take a connection within two seconds, twice."""
_CHOSEN_BY = "CUDA_VISIBLE_DEVICES"
_NODE = "REPLICA_NODE"

Node = Mapping[str, Any]


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    place: str,
    numbers: Sequence[int],
    parts: int,
    devices: str,
) -> tuple[int, str]:
    """Run the command on one node in the folder `place`, once for each number. → the number that
    ended badly, and how; or no words.

    Ray sends this function to the nodes, so it imports all that it needs.

    Args:
        numbers: the first of `parts` that share this node.
        devices: the variable in which Ray names the devices; empty: they need none.
    """
    import ctypes
    import os
    import signal
    import subprocess
    import time

    def end_with_task() -> None:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG

    for path in (command[0], place):
        if not os.path.exists(path):  # noqa: PTH110
            return numbers[0], f"node {environment['REPLICA_NODE']} does not see {path}"
    named = os.environ.get(devices, "")
    shares = [named] if parts == 1 else named.split(",")
    children = {}
    with open(os.path.join(place, "cluster.log"), "ab") as log:  # noqa: PTH118, PTH123
        for part, number in enumerate(numbers):
            own = {devices: shares[part]} if devices else {}
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
            return number, how
    return numbers[0], ""


def spread(count: int, resource: str, nodes: Sequence[Node]) -> list[Node]:
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


def name(node: Node) -> str:
    """The name that the user gave to a node (`ray start --node-name`), or that of its system."""
    given = node.get("NodeName")
    is_given = given and given != node["NodeManagerAddress"]
    return str(given if is_given else node["NodeManagerHostname"])


def _amount(node: Node, resource: str) -> float:
    return float(node["Resources"].get(resource, 0))


class Tasks:
    """Tasks of Ray, each of which runs the command on one node.

    Attributes:
        head: the host and port at which this process reaches the head of the cluster.
        running: reference of a task → (its node, its numbers).
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], address: str):
        self.command = command
        self.environment = environment
        _, _, client = address.partition("ray://")
        host, _, port = (client or ray.get_runtime_context().gcs_address).rpartition(":")
        self.head = (host.strip("[]"), int(port))
        self.silent = 0
        self.running: dict[Any, tuple[Node, Sequence[int]]] = {}

    def start(
        self, node: Node, numbers: Sequence[int], parts: int, *, cpus: float, gpus: float
    ) -> None:
        """Start the command on a node for the first numbers of `parts`."""
        task = ray.remote(run).options(
            num_cpus=cpus,
            num_gpus=gpus,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
            max_retries=0,
        )
        environment = {**self.environment, _NODE: name(node)}
        devices = _CHOSEN_BY if gpus else ""
        folder = os.getcwd()  # noqa: PTH109
        reference = task.remote(self.command, environment, folder, list(numbers), parts, devices)
        self.running[reference] = (node, numbers)

    def ended(self) -> list[tuple[int, str, str]]:
        """(number, node, how it ended badly) of those that ended within a second. Ends this process
        if the head does not answer.
        """
        self.silent = 0 if self.head_answers() else self.silent + 1
        if self.silent == _SILENT:
            host, port = self.head
            _fail(f"the head of the Ray cluster at {host}:{port} does not answer")
        if not self.running:
            time.sleep(_LOOK_S)
            return []
        done, _ = ray.wait(list(self.running), timeout=_LOOK_S)
        ends = []
        for reference in done:
            node, numbers = self.running.pop(reference)
            try:
                number, words = ray.get(reference)
                ends.append((number, name(node), words))
            except RayError as e:  # the first sentence of Ray's own words
                sentence = " ".join(str(e).partition(". ")[0].split())
                words = f"Ray ended it on {name(node)}, {type(e).__name__}: {sentence}"
                ends += [(number, name(node), words) for number in numbers]
        return ends

    def head_answers(self) -> bool:
        """Return whether the head takes a connection."""
        try:
            socket.create_connection(self.head, _ANSWER_S).close()
        except OSError:
            return False
        return True

    def free(self, resource: str) -> list[Node]:
        """The nodes without a task of ours that have at least one of `resource`."""
        taken = [node["NodeID"] for node, _ in self.running.values()]
        fit = [node for node in ray.nodes() if node["Alive"] and _amount(node, resource) >= 1]
        return [node for node in fit if node["NodeID"] not in taken]


def replicas(tasks: Tasks, resource: str, numbers: str) -> None:
    """Run replicas until all have ended, or one badly."""
    used, count = map(int, numbers.split("/"))
    nodes = spread(count, resource, ray.nodes())
    if not nodes:
        needed = "" if resource == "none" else f" with a {resource} for each"
        _fail(f"no number of alive nodes can share {count} replicas equally{needed}")
    each = count // len(nodes)
    for first, node in zip(range(0, used, each), nodes, strict=False):
        own = range(first, min(first + each, used))
        cpus = _amount(node, "CPU") if resource == "CPU" else 0
        tasks.start(node, own, each, cpus=cpus, gpus=each if resource == "GPU" else 0)
    while tasks.running:
        bad = [f"task {number}: {words}" for number, _, words in tasks.ended() if words]
        if bad:
            _fail("\n".join(bad))


def array(tasks: Tasks, resource: str, numbers: str) -> None:
    """Run each number on a node of its own."""
    waiting = deque(map(int, numbers.split(",")))
    is_short = False
    while waiting or tasks.running:
        for node in tasks.free(resource)[: len(waiting)]:
            number = waiting.popleft()
            every = {"cpus": _amount(node, "CPU"), "gpus": _amount(node, "GPU")}
            tasks.start(node, [number], 1, **every)
            _print(f"task {number}: runs on {name(node)}")
        if not tasks.running and not is_short:
            is_short = True
            _print(f"task {waiting[0]}: waits: no node has a {resource}")
        for number, node_name, words in tasks.ended():
            _print(f"task {number}: {words or 'ended'} ({node_name})")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _fail(text: str) -> NoReturn:
    _print(text)
    raise SystemExit(1)


def _terminate(number: int, frame: object) -> NoReturn:
    raise SystemExit(1)


def main(argv: Sequence[str]) -> None:
    """Connect to the cluster, and run the command. `argv`: see the module."""
    _, kind, address, resource, numbers, *command = argv
    environment = dict(os.environ)
    signal.signal(signal.SIGTERM, _terminate)
    ray.init(address=address, log_to_driver=False)
    tasks = Tasks(command, environment, address)
    try:
        {"replicas": replicas, "array": array}[kind](tasks, resource, numbers)
    finally:
        if not tasks.head_answers():
            os._exit(1)  # Ray's own end would wait for the head
        for reference in tasks.running:
            ray.cancel(reference, force=True)
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv)
