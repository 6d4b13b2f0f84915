"""Run jobs in a worker process of its own process group: sleep, read the heartbeat once a second,
and return how each job ended.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from formats import reading
from formats.job import PROFILE, REFERENCE, SERVE, Job
from formats.outcome import WorkerOutcome
from formats.workload import Variables
from formats.writing import write_json
from harness.execution.environments import ROOT
from harness.execution.zygotes import Zygotes
from scenarios.worker import heartbeat
from scenarios.worker.child import Child, Forked
from scenarios.worker.heartbeat import Beat, OnBeat
from scenarios.worker.system import control_groups, cores, host_memory
from sut.devices import DEVICES

_LOOK_S = 1.0
_END_S = 10  # for a worker that has no more jobs
_START_LIMIT_S = 120  # an interpreter without a heartbeat by then will never have one


class Worker:
    """A worker process, which runs one job after another with the SUT that the first one loaded.

    It is started for the first job, and again for the next one after a job that failed. On leaving
    the context all processes of its group are ended.

    Attributes:
        module: the words after `python -m`.
    """

    module: Sequence[str] = ("scenarios.worker",)

    def __init__(self, python: Path, process_env: Variables, zygotes: Zygotes | None = None):
        """`python`: the interpreter of the SUT's environment. `process_env`: environment variables
        in addition to those of the device. `zygotes`: fork the process, if they can.
        """
        self._python = python
        self._process_env = process_env
        self._zygotes = zygotes
        self._process: Child | Forked | None = None
        self._replies = -1
        self._held_before = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(_END_S if kind is None else 0)

    def run(self, job: Job, watch: OnBeat) -> WorkerOutcome:
        """Run the job. → the worker's WorkerOutcome, or one that says how the worker died. The logs
        stay in job.log_dir.
        """
        log_dir = job.log_dir
        write_json(log_dir / "job.json", job)
        process = self._ready(job)
        process.oom_kills = host_memory.kernel_oom_kills()
        try:
            hang = _watch(process, self._replies, log_dir / "heartbeat", watch)
        except BaseException:
            self._end()
            raise
        if hang or process.poll() is not None:
            self._end()
        if outcome := read_outcome(log_dir):
            return outcome
        self._end()
        # A child's peak starts at the peak of its parent, which may have mapped large files.
        largest = _peak_bytes(resource.RUSAGE_CHILDREN)
        known = largest > max(self._held_before, _peak_bytes(resource.RUSAGE_SELF))
        return _post_mortem(job, process, hang, largest if known else None)

    def _ready(self, job: Job) -> Child | Forked:
        """Hand the job over to the running process. If there is none, start one."""
        process = self._process or self._start(job)
        if not _hand_over(process, job):  # killed while it waited
            self._end()
            process = self._start(job)
            _hand_over(process, job)
        return process

    def _start(self, job: Job) -> Child | Forked:
        self._held_before = _peak_bytes(resource.RUSAGE_CHILDREN)
        self._replies, replies = os.pipe()
        device = DEVICES[job.workload.device]
        places = job.places
        chosen = [place.device for place in places if place.device]
        own = device.environment(os.environ, chosen)
        env = {**own, **self._process_env, "PYTHONPATH": str(ROOT)}
        # The LoadGen process of several replicas pins them, and not itself.
        own_cores = places[0].cores if len(places) == 1 else ()
        pinned_to = own_cores or cores.available()
        try:
            if self._zygotes:
                self._process = self._zygotes.fork(self._python, env, pinned_to, job, replies)
            if self._process is None:
                words = ("-P", "-m", *self.module, str(os.getpid()), str(replies))
                self._process = Child(
                    [self._python, *words],
                    job.log_dir,
                    job.log_dir / "worker.log",
                    env,
                    pinned_to,
                    stdin=subprocess.PIPE,
                    pass_fds=(replies,),
                    start_new_session=True,
                )
        finally:
            os.close(replies)
        return self._process

    def _end(self, seconds: float = 0) -> None:
        """Close the worker's input, wait at most so long for its end, and kill its group."""
        if not self._process:
            return
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        _ended_within(self._process, seconds)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._replies)
        self._process = None


def run(job: Job, python: Path, process_env: Variables, watch: OnBeat) -> WorkerOutcome:
    """Run one job in a worker of its own. See `Worker.run`."""
    with Worker(python, process_env) as worker:
        return worker.run(job, watch)


def read_outcome(log_dir: Path) -> WorkerOutcome | None:
    """The outcome that the worker wrote. None: it wrote none, or the file cannot be read."""
    try:
        return reading.from_file(log_dir / "outcome.json", WorkerOutcome)
    except (OSError, ValueError):
        return None


def _hand_over(process: Child | Forked, job: Job) -> bool:
    """Write the job's path to the process. → False if the process has ended."""
    assert process.stdin
    try:
        process.stdin.write(f"{job.log_dir / 'job.json'}\n".encode())
        process.stdin.flush()
    except BrokenPipeError:
        return False
    return True


def _watch(process: Child | Forked, replies: int, path: Path, watch: OnBeat) -> Beat | None:
    """Wait until the worker has done its job or ends (→ None), or until it has no new heartbeat for
    its phase's limit (→ the last one).
    """
    last = Beat("start", 0, 0, _START_LIMIT_S)
    changed_s = time.monotonic()
    while not _ended_within(process, _LOOK_S, replies):
        beat = heartbeat.read(path) or last
        if beat != last:
            last = beat
            changed_s = time.monotonic()
            watch(beat)
        elif time.monotonic() - changed_s > (last.limit_s or _START_LIMIT_S):
            return last
    return None


def _ended_within(process: Child | Forked, seconds: float, replies: int | None = None) -> bool:
    """Wait for the process to end, or for a reply, at most so long. → whether one of them happened.

    It sleeps in the kernel, because Popen.wait(timeout) would poll twenty times a second during the
    measurement.
    """
    if process.poll() is not None:
        return True
    waited = [] if replies is None else [replies]
    with suppress(OSError):  # a sandbox may forbid it
        waited.append(os.pidfd_open(process.pid))
    ready = select.select(waited, [], [], seconds)[0]
    for fd in waited:
        if fd != replies:
            os.close(fd)
    if replies in ready and os.read(replies, 1):
        return True
    return process.poll() is not None


def _post_mortem(
    job: Job, process: Child | Forked, hang: Beat | None, held_bytes: int | None
) -> WorkerOutcome:
    """The outcome of a worker that wrote no outcome.json. `held_bytes`: the most memory that the
    worker used; None: not known.
    """
    places = {
        REFERENCE: f"making the {REFERENCE}",
        SERVE: "while it served",
        PROFILE: "while it was profiled",
    }
    where = places.get(job.test, f"in the {job.test} test")
    log_dir = job.log_dir
    log = f"see {log_dir / 'worker.log'}"
    if hang:
        return WorkerOutcome(
            "error",
            f"hung {where}, phase {hang.phase}: no progress after {hang.completed} in"
            f" {hang.limit_s} s; ended; {log}",
        )
    if process.is_out_of_memory:
        # The memory of this machine, or as much of it as the control groups may use.
        all_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        most_bytes = min(all_bytes, control_groups.memory_bytes() or all_bytes)
        held = f", at {held_bytes:,} bytes of this machine's {most_bytes:,}" if held_bytes else ""
        return WorkerOutcome(
            "oom",
            f"the kernel killed the worker {where} for want of memory{held}: choose a smaller"
            " --size or --batch-size",
        )
    if free_bytes(log_dir) < 1 << 20:
        return WorkerOutcome(
            "error",
            f"the disk of {log_dir} is full {where}: free some space or choose another --out",
        )
    how = process.how(where=f" {where}")
    no_outcome = "" if (process.returncode or 0) < 0 else " and no outcome"
    return WorkerOutcome("error", f"the worker {how}{no_outcome}; {log}")


def free_bytes(path: Path) -> int:
    """The bytes that an ordinary user can still write at `path`."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _peak_bytes(whose: int) -> int:
    """The most memory that this process, or one of its ended children, used."""
    return resource.getrusage(whose).ru_maxrss * 1024
