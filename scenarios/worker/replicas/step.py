"""`python -m scenarios.worker.replicas.step HOST PORT JOB NUMBER PART PARTS`: a cluster starts it
on a node. It runs the replica NUMBER of a job, which is replica PART of PARTS on this node.

The replica is pinned before it imports a package, because packages count their cores then. It gets
the connection from this process, which ends it when the LoadGen process has gone, whatever the
replica does. Standard library only.
"""

from __future__ import annotations

import os
import select
import sys
from multiprocessing import AuthenticationError
from pathlib import Path

from formats.job import Job, read_job
from scenarios.worker.child import Child
from scenarios.worker.replicas import gate
from scenarios.worker.replicas.placement import INHERITED, LOG, folder, node
from scenarios.worker.system import cores
from sut.devices import DEVICES

_LOOK_MS = 250
_END_S = 2.0
"""A replica that does not end by itself is ended so long after the LoadGen process has gone."""


def main(argv: list[str], module: str = "scenarios.worker.replica") -> None:
    """Run the replica. `argv`: see the module. Ends with a sentence if that is impossible."""
    _, host, port, path, number, part, parts = argv
    job = read_job(Path(path))
    try:
        _place(job, int(part), int(parts))
        connection = gate.dial((host, int(port)))
    except (AuthenticationError, EOFError, OSError, ValueError) as e:
        sys.exit(f"task {number}: node {node()}: {e}")
    directory = folder(job, int(number))
    directory.mkdir(exist_ok=True)
    handle = connection.fileno()
    words = [str(os.getpid()), INHERITED, str(handle), number, path]
    command = [sys.executable, "-P", "-m", module, *words]
    replica = Child(command, directory, directory / LOG, pass_fds=(handle,))
    # Wait for the end of the replica, and end it if the other side of the connection has gone.
    link = select.poll()
    link.register(handle, select.POLLRDHUP)
    while replica.poll() is None and not link.poll(_LOOK_MS):
        pass
    replica.end(_END_S)
    code = replica.returncode
    if code < 0:
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _place(job: Job, part: int, parts: int) -> None:
    """Pin this process. Raises ValueError if the replica has no place of its own."""
    launch = job.launch
    assert launch
    device = DEVICES[job.workload.device]
    named = device.named(os.environ)
    if device.chosen_by and len(named) != 1:
        raise ValueError(
            f"each replica needs one device of its own, and the cluster set {device.chosen_by} to"
            f" {','.join(named) or 'nothing'}: configure these devices in the cluster"
        )
    if not launch.pinned:
        return
    every = cores.usable()
    if len(every) < parts:
        raise ValueError(
            f"{parts} replicas need a core each, and there are {len(every)}: give fewer --replicas,"
            " or more nodes"
        )
    own = cores.parts(every, parts)[part]
    threads = launch.threads or len(own)
    most = cores.count(own)
    if launch.threads and threads > most:
        raise ValueError(
            f"--threads {threads}: a replica has {most} cores of this node: give fewer"
        )
    os.sched_setaffinity(0, cores.first(own, threads))


if __name__ == "__main__":
    main(sys.argv)
