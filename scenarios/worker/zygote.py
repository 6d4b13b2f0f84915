"""`python -m scenarios.worker.zygote PARENT_ID SOCKET SUT ARCHITECTURE`, run by the interpreter of
the SUT. It imports what a worker of the SUT imports, and computes nothing. Then it forks a worker
for each request, so that the workers of a sweep need not import the framework again.

At first it writes a `Ready` to the socket. Each request is one byte with two file descriptors: that
of the worker's input, and that of its replies. The worker answers with its process id when the
process PARENT_ID has become its parent. So that process sees its end as that of any other child,
and the worker outlives this process.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from scenarios.worker import __main__ as worker
from scenarios.worker.system import host_memory
from sut.registry import load_module

_LOOK_S = 0.0005
_TASKS = Path("/proc/self/task")


@dataclass(frozen=True)
class Ready:
    """The first message. `threads`: those of this process. Only a process with one can be forked
    safely.
    """

    threads: int
    import_ns: int


def main(argv: list[str]) -> None:
    """Import the SUT's module and fork workers until the socket is closed. `argv` is this program
    and its arguments.
    """
    parent = int(argv[1])
    worker.die_with_parent(parent)
    with socket.socket(fileno=int(argv[2])) as requests:
        start_ns = time.perf_counter_ns()
        load_module(argv[3], argv[4])
        import_ns = time.perf_counter_ns() - start_ns
        # OpenBLAS has threads from its import on. It ends them before a fork, and starts them
        # again when they are needed.
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        ready = Ready(len(list(_TASKS.iterdir())), import_ns)
        requests.sendall(json.dumps(asdict(ready)).encode())
        count = 0
        while True:
            message, handles, _, _ = socket.recv_fds(requests, 1, 2)
            if not message:
                break
            count += 1
            of_files = host_memory.file_bytes()
            _fork(requests, handles, parent, worker.Fork(count, import_ns, of_files))
    os._exit(0)  # Python's own exit would free each object of the framework


def _fork(requests: socket.socket, handles: list[int], parent: int, fork: worker.Fork) -> None:
    """Fork a worker, whose parent is a process between that ends at once."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        for handle in handles:
            os.close(handle)
        return
    between = os.getpid()
    if os.fork():
        os._exit(0)
    try:
        _work(requests, handles, parent, between, fork)
    except Exception:  # noqa: BLE001, the harness finds the exit code
        traceback.print_exc()
    finally:
        os._exit(1)


def _work(
    requests: socket.socket, handles: list[int], parent: int, between: int, fork: worker.Fork
) -> None:
    """Be a worker, as `python -m scenarios.worker` is."""
    os.setsid()
    np.random.seed()  # otherwise all workers would draw the same
    jobs, replies = handles
    os.dup2(jobs, 0)
    os.close(jobs)
    while os.getppid() == between:
        time.sleep(_LOOK_S)
    requests.sendall(str(os.getpid()).encode())
    requests.close()
    worker.main(["scenarios.worker", str(parent), str(replies)], fork)


if __name__ == "__main__":
    main(sys.argv)
