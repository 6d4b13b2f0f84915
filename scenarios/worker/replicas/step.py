"""`python -m scenarios.worker.replicas.step HOST PORT JOB NUMBER PART PARTS`: a cluster starts it
on a node, and it becomes the replica NUMBER of a job, which is replica PART of PARTS on this node.

The replica is pinned before it imports a package, because packages count their cores then. Standard
library only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from formats.job import read_job
from scenarios.worker.replicas import cores
from scenarios.worker.replicas.placement import FROM_CLUSTER, node
from sut.devices import DEVICES


def main(argv: list[str]) -> None:
    """Become the replica. `argv`: see the module. Ends with a sentence if that is impossible."""
    _, host, port, path, number, part, parts = argv
    job = read_job(Path(path))
    assert job.launch
    start = f"task {number}: node {node()}"
    variable = DEVICES[job.workload.device].chosen_by
    if variable and not os.environ.get(variable):
        sys.exit(
            f"{start}: the cluster set no {variable}, which gives each replica a device of its own:"
            " configure these devices in the cluster"
        )
    if job.launch.pinned:
        every = cores.usable()
        if len(every) < int(parts):
            sys.exit(
                f"{start}: {parts} replicas need a core each, and there are {len(every)}: give"
                " fewer --replicas, or more nodes"
            )
        os.sched_setaffinity(0, cores.parts(every, int(parts))[int(part)])
    words = [FROM_CLUSTER, host, port, number, path]
    os.execv(sys.executable, [sys.executable, "-P", "-m", "scenarios.worker.replica", *words])


if __name__ == "__main__":
    main(sys.argv)
