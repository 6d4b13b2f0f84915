"""Processes that have imported a SUT and fork its workers (`scenarios.worker.zygote`). In a sweep
they save the import of all measurements but a SUT's first one.
"""

from __future__ import annotations

import json
import os
import select
import socket
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from formats.cell import SHARDS
from formats.job import Job
from formats.workload import Variables
from harness.execution.environments import Say
from scenarios.worker.child import Child, Forked, adopting
from scenarios.worker.heartbeat import LOAD_LIMIT_S
from scenarios.worker.preflight import available_memory_bytes
from sut.devices import DEVICES
from sut.registry import FIT, module_of, spec_of

MOST = 6
"""So many at a time. Most take 0.3 to 0.6 GB."""
_ROOM_BYTES = 4 << 30
"""One is started only if so much memory is available, because cells need it too."""
_ANSWER_S = 10.0  # a fork takes milliseconds
_MODULE = "scenarios.worker.zygote"

_Key = tuple[Path, str, tuple[tuple[str, str], ...], tuple[int, ...]]
"""(interpreter, module of the SUT, environment variables, cores)."""


class _Lost(Exception):
    """A zygote has ended, does not answer, or cannot be forked. The message says which."""


class Zygotes:
    """Forks the workers of a sweep. On leaving the context all zygotes are ended.

    A zygote serves one interpreter, module of a SUT, set of environment variables and set of cores,
    because all of these act while a framework is imported. None is ended to make room for another
    one, because the cells of a sweep are measured in turns.
    """

    def __init__(self, say: Say):
        self._say = say
        self._zygotes: dict[_Key, _Zygote] = {}
        self._lost: set[_Key] = set()
        self._left: Counter[str] = Counter()

    def __enter__(self) -> Zygotes:
        return self

    def __exit__(self, *_: object) -> None:
        self.expect(())

    def expect(self, modules: Iterable[str]) -> None:
        """End the zygotes that are not needed any more. `modules`: for each measurement that is
        left, the module of its SUT.
        """
        self._left = Counter(modules)
        for key in list(self._zygotes):
            if not self._left[key[1]]:
                self._zygotes.pop(key).end()

    def fork(
        self,
        python: Path,
        environment: Variables,
        cores: Sequence[int],
        job: Job,
        replies: int,
    ) -> Forked | None:
        """Return a worker. None: this job gets a process of its own.

        `replies`: the file descriptor that the worker writes.
        """
        if not _can_fork(job):
            return None
        module = module_of(job.sut, job.architecture)
        key = (python, module, tuple(sorted(environment.items())), tuple(cores))
        if key in self._lost or not (key in self._zygotes or self._has_use_and_room(module)):
            return None
        try:
            if key not in self._zygotes:
                self._zygotes[key] = _Zygote(python, environment, cores, job)
            return self._zygotes[key].fork(replies)
        except _Lost as e:
            self._lost.add(key)
            self._end(key)
            self._say(f"{job.sut}: each worker imports the framework again, because {e}")
            return None
        except BaseException:  # the time is up, in the middle of an answer
            self._end(key)
            raise

    def _has_use_and_room(self, module: str) -> bool:
        room = available_memory_bytes()
        has_room = room is not None and room >= _ROOM_BYTES and len(self._zygotes) < MOST
        return self._left[module] > 1 and has_room

    def _end(self, key: _Key) -> None:
        zygote = self._zygotes.pop(key, None)
        if zygote:
            zygote.end()


def _can_fork(job: Job) -> bool:
    """Whether the job's worker may be forked. A GPU's driver cannot be forked, replicas and shards
    are processes of their own, and an engine needs no import.
    """
    spec = spec_of(job.sut)
    is_single = not job.replicated and SHARDS not in job.workload.options and not spec.remote
    on_host = not DEVICES[job.workload.device].accelerator
    return is_single and on_host and job.procedure != FIT


class _Zygote:
    """One process that has imported a SUT. Raises _Lost if it cannot."""

    def __init__(self, python: Path, environment: Variables, cores: Sequence[int], job: Job):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = (str(os.getpid()), str(theirs.fileno()), job.sut, job.architecture)
        self._process = Child(
            [python, "-P", "-m", _MODULE, *words],
            job.log_dir,
            job.log_dir / "worker.log",
            environment,
            cores,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        try:
            ready = json.loads(self._receive(LOAD_LIMIT_S))
            if ready["threads"] > 1:
                raise _Lost(
                    f"its import leaves {ready['threads']} threads, which no fork would have"
                )
        except BaseException:
            self.end()
            raise

    def fork(self, replies: int) -> Forked:
        """Return a worker."""
        jobs, ours = os.pipe()
        stdin = os.fdopen(ours, "wb")
        try:
            with adopting():
                socket.send_fds(self._socket, [b"\n"], [jobs, replies])
                return Forked(int(self._receive(_ANSWER_S)), stdin)
        except OSError as e:
            stdin.close()
            raise _Lost(f"the process that had imported it has ended ({e.strerror})") from None
        except BaseException:
            stdin.close()
            raise
        finally:
            os.close(jobs)

    def _receive(self, seconds: float) -> bytes:
        """Return its next message. Raises _Lost if there is none within so many seconds."""
        if not select.select([self._socket], [], [], seconds)[0]:
            raise _Lost(f"the process that imports it does not answer within {seconds:.0f} s")
        message = self._socket.recv(1 << 12)
        if not message:
            raise _Lost(f"the process that imports it {self._process.how(1)}")
        return message

    def end(self) -> None:
        """End it. Workers that it forked go on."""
        self._socket.close()
        self._process.end()
