"""`python -m scenarios.worker.rank PARENT_ID NUMBER CONNECTION JOB`, run by the SUT's interpreter:
one of the ranks 1, 2, … of a SUT whose shards are processes. It makes the calls of rank 0 until the
connection is closed.
"""

from __future__ import annotations

import os
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from formats.job import Job, read_job
from scenarios.worker import __main__ as worker
from scenarios.worker import failures
from scenarios.worker.ranks import processes
from scenarios.worker.replicas import link
from scenarios.worker.replicas.link import Message
from scenarios.worker.system import host_memory
from sut.evidence import generated_files
from sut.registry import loader


def main(argv: list[str]) -> None:
    """Follow rank 0 and end the process. `argv`: see the module."""
    _, parent, number, descriptor, path = argv
    worker.die_with_parent(int(parent))
    connection = Connection(int(descriptor))
    job = read_job(Path(path))
    code = 0
    try:
        follow(connection, job, int(number))
    # Whatever a framework raises ends the test. The traceback stays in the log.
    except Exception as e:  # noqa: BLE001
        traceback.print_exc()
        outcome = failures.outcome_of(e, job.sut, job.workload.device)
        link.send(connection, {"status": outcome.status, "reason": outcome.reason})
        code = 1
    generated_files.remove()
    sys.stderr.flush()
    # Frameworks' threads may never end.
    os._exit(code)


def follow(connection: Connection, job: Job, number: int) -> None:
    """Make the calls of rank 0. It returns when the connection is closed."""
    load = loader(job.sut, job.architecture, job.workload.task)
    sut: Any = None
    while message := _received(connection):
        do = message.header["do"]
        if do == processes.LOAD:
            sut = load(processes.workload(job, number, Path.cwd()))
            link.send(connection, {})
        elif do == processes.HELD:
            peak_bytes = host_memory.peak_bytes()
            link.send(connection, {**sut.held(), "peak_host_bytes": peak_bytes})
        elif do == processes.STREAM:
            sut.stream(message.arrays, lambda tokens: _goes_on(connection))
        elif do == "logits":
            sut.logits(message.arrays["tokens"])
        else:
            sut.predict(message.arrays)


def _received(connection: Connection) -> Message | None:
    """Wait for a message. None: rank 0 has gone."""
    try:
        return link.receive(connection)
    except (EOFError, OSError):
        return None


def _goes_on(connection: Connection) -> bool:
    """Return whether rank 0 needs another token."""
    message = _received(connection)
    return message is not None and bool(message.header["goes_on"])


if __name__ == "__main__":
    main(sys.argv)
