"""A SUT whose shards are processes. This process has rank 0 and answers. Ranks 1, 2, … make each of
its calls on the same inputs, because every rank computes a part of every layer.

The processes are started as torchrun starts them: one for each device, which differ by their rank.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from formats.cell import SHARDS
from formats.job import Job
from formats.outcome import WorkerOutcome
from formats.workload import Workload
from formats.writing import write_json
from scenarios.worker.child import Child
from scenarios.worker.failures import Reported
from scenarios.worker.replicas import link
from scenarios.worker.replicas.link import Arrays, Header
from sut.devices import DEVICES
from sut.registry import spec_of

LOAD = "load"
HELD = "held"
STREAM = "stream"
"""The calls that a rank does not hand over to the SUT with their arrays alone."""
_TICK_S = 0.25
_END_S = 2.0


@dataclass(frozen=True)
class _Rank:
    """A process with a rank above 0."""

    number: int
    process: Child
    connection: Connection


def needed(job: Job) -> bool:
    """Return whether the job's SUT is split on several processes."""
    return SHARDS in job.workload.options and spec_of(job.sut).ranks


def workload(job: Job, number: int, folder: Path) -> Workload:
    """The workload of a rank. All ranks meet in `folder`."""
    return replace(job.workload, rank=number, meeting=folder / "meeting")


class Ranks:
    """Starts ranks 1, 2, … and watches them. A rank that is lost ends the call of rank 0. One that
    hangs lets the whole worker hang, which the parent notices.

    Attributes:
        workload: that of rank 0.
        peak_host_bytes: the most memory that they used, the sum over all, at the last `held`.
    """

    def __init__(self, job: Job):
        self.peak_host_bytes = 0
        self._job = job
        # The worker runs in the folder of its test, and a replica in one of its own.
        self._folder = Path.cwd() / "ranks"
        self._folder.mkdir(exist_ok=True)
        (self._folder / "meeting").unlink(missing_ok=True)
        self.workload = workload(job, 0, self._folder)
        self._call = ""
        self._fault: WorkerOutcome | None = None
        self._is_over = threading.Event()
        count = job.workload.options[SHARDS]
        self._ranks = [self._start(number) for number in range(1, count)]
        threading.Thread(target=self._watch, name="ranks", daemon=True).start()

    def _start(self, number: int) -> _Rank:
        """Start a rank. Its output goes to a file in the folder, and it sees one device."""
        ours, theirs = multiprocessing.Pipe()
        device = DEVICES[self._job.workload.device]
        chosen = device.named(os.environ)[number : number + 1]
        path = self._job.log_dir / "job.json"
        words = (str(os.getpid()), str(number), str(theirs.fileno()), str(path))
        process = Child(
            [sys.executable, "-P", "-m", "scenarios.worker.rank", *words],
            self._folder,
            self._log(number),
            device.environment(os.environ, chosen),
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        return _Rank(number, process, ours)

    def _log(self, number: int) -> Path:
        return self._folder / f"rank-{number}.log"

    @contextmanager
    def call(self, name: str, arrays: Arrays) -> Iterator[None]:
        """Let ranks 1, 2, … call a method of the SUT, while rank 0 calls it within this context.
        Raises Reported if a rank is lost.
        """
        self._raise()
        self._call = name
        try:
            self.tell({"do": name}, arrays)
            yield
            self._raise()
        except Reported:
            raise
        except Exception:
            # The end of another rank may be the cause. It is found soon.
            self._is_over.wait(_END_S)
            self._raise()
            raise
        finally:
            self._call = ""

    def tell(self, header: Header, arrays: Arrays | None = None) -> None:
        """Send a message to ranks 1, 2, …."""
        for rank in self._ranks:
            link.send(rank.connection, header, arrays)

    def replies(self) -> list[Header]:
        """The next message of each rank. Raises Reported if one reports an error."""
        found = [link.receive(rank.connection).header for rank in self._ranks]
        for rank, reply in zip(self._ranks, found, strict=True):
            if "status" in reply:
                raise Reported(_of_rank(rank, reply))
        return found

    def held(self) -> list[Header]:
        """The parameters that ranks 1, 2, … hold, as `held` of the SUT returns them."""
        with self.call(HELD, {}):
            replies = self.replies()
            self.peak_host_bytes = sum(reply.pop("peak_host_bytes") for reply in replies)
        return replies

    def close(self) -> None:
        """End ranks 1, 2, …."""
        self._is_over.set()
        for rank in self._ranks:
            rank.connection.close()
        self._end(_END_S)

    def _end(self, seconds: float) -> None:
        """Wait at most so long for the ends of ranks 1, 2, …, and then kill them."""
        end_s = time.monotonic() + seconds
        for rank in self._ranks:
            rank.process.end(max(0.0, end_s - time.monotonic()))

    def _raise(self) -> None:
        if self._fault:
            raise Reported(self._fault)

    def _watch(self) -> None:
        """Wait for the end of a rank. Then kill all of them, so that rank 0 does not wait for them
        any more.
        """
        while not self._is_over.wait(_TICK_S):
            fault = self._ended()
            if fault:
                self._fault = fault
                self._end(0)
                self._is_over.set()
                self._end_if_stuck(fault)

    def _end_if_stuck(self, fault: WorkerOutcome) -> None:
        """End this process if its call does not return, because a GPU may wait for ever."""
        end_s = time.monotonic() + _END_S
        while self._call and time.monotonic() < end_s:
            time.sleep(_TICK_S)
        if self._call:
            write_json(Path.cwd() / "outcome.json", fault)
            sys.stderr.write(f"{fault.reason}\n")
            sys.stderr.flush()
            # A worker is judged by the file, and a replica by its end.
            os._exit(1 if self._job.replicated else 0)

    def _ended(self) -> WorkerOutcome | None:
        """The outcome if a rank has ended. None: all run."""
        ended = [rank for rank in self._ranks if rank.process.poll() is not None]
        if not ended:
            return None
        # Other ranks end after the first one, by an error of their connection.
        first = min(ended, key=lambda rank: rank.process.returncode)
        # The header of the last message of a rank that has ended. Empty: it sent none.
        connection = first.connection
        reply: Header = {}
        try:
            while connection.poll():
                reply = link.receive(connection).header
        except (EOFError, OSError):
            pass
        if first.process.returncode >= 0 and "status" in reply:
            return _of_rank(first, reply)
        return self._gone(first)

    def _gone(self, rank: _Rank) -> WorkerOutcome:
        """The outcome of a rank that ended without a reason."""
        where = f" in the call {self._call!r}" if self._call else ""
        if rank.process.is_out_of_memory:
            reason = f"the kernel killed rank {rank.number}{where} for want of memory"
            return WorkerOutcome("oom", f"{reason}: choose a smaller --size or --batch-size")
        how = f"{rank.process.how()}{where}"
        return WorkerOutcome("error", f"rank {rank.number} {how}; see {self._log(rank.number)}")


def _of_rank(rank: _Rank, reply: Header) -> WorkerOutcome:
    """The outcome that a rank reported."""
    return WorkerOutcome(reply["status"], f"rank {rank.number}: {reply['reason']}")
