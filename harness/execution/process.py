"""Run one Job in its own process group: sleep, read the heartbeat once a second, and return how it
ended.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from formats import reading
from formats.job import REFERENCE, Job
from formats.outcome import WorkerOutcome
from formats.writing import write_json
from harness.execution.environments import ROOT
from scenarios.worker import heartbeat
from scenarios.worker.heartbeat import Beat
from sut.devices import DEVICES

_LOOK_S = 1.0
_START_LIMIT_S = 120  # an interpreter without a heartbeat by then will never have one


def run(
    job: Job, python: Path, process_env: Mapping[str, str], watch: Callable[[Beat], None]
) -> WorkerOutcome:
    """Run the job. → the worker's WorkerOutcome, or one that says how it died. Its logs stay in
    job.log_dir. All processes of its group are ended.
    """
    write_json(job.log_dir / "job.json", job)
    kills_before, largest_before = _kernel_oom_kills(), _peak_bytes(resource.RUSAGE_CHILDREN)
    env = {
        **DEVICES[job.workload.device].environment(os.environ),
        **process_env,
        "PYTHONPATH": str(ROOT),
    }
    with (job.log_dir / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [
                python,
                "-P",
                "-m",
                "scenarios.worker",
                str(job.log_dir / "job.json"),
                str(os.getpid()),
            ],
            cwd=job.log_dir,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            hang = _watch(process, job.log_dir / "heartbeat", watch)
        finally:
            _end_group(process)
    if outcome := read_outcome(job.log_dir):
        return outcome
    largest = _peak_bytes(resource.RUSAGE_CHILDREN)
    # A child's peak starts at the peak of its parent, which may have mapped large files.
    held_bytes = (
        largest if largest > max(largest_before, _peak_bytes(resource.RUSAGE_SELF)) else None
    )
    return _post_mortem(
        job, process.returncode, hang, _kernel_oom_kills() > kills_before, held_bytes
    )


def read_outcome(log_dir: Path) -> WorkerOutcome | None:
    """The outcome that the worker wrote. None: it wrote none, or the file cannot be read."""
    try:
        return reading.from_file(log_dir / "outcome.json", reading.outcome)
    except (OSError, ValueError):
        return None


def _watch(
    process: subprocess.Popen[bytes], path: Path, watch: Callable[[Beat], None]
) -> Beat | None:
    """Wait until the worker ends (→ None), or until it has no new heartbeat for its phase's limit
    (→ the last one).
    """
    last, changed_s = Beat("start", 0, 0, _START_LIMIT_S), time.monotonic()
    while not _ended_within(process, _LOOK_S):
        beat = heartbeat.read(path) or last
        if beat != last:
            last, changed_s = beat, time.monotonic()
            watch(beat)
        elif time.monotonic() - changed_s > (last.limit_s or _START_LIMIT_S):
            return last
    return None


def _ended_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the process to end, at most so long. → whether it ended. On Linux this sleeps in the
    kernel, because Popen.wait(timeout) would poll twenty times a second during the measurement.
    """
    if process.poll() is not None:
        return True
    try:
        fd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, an old kernel, a sandbox that forbids it
        time.sleep(seconds)
    else:
        try:
            select.select([fd], [], [], seconds)
        finally:
            os.close(fd)
    return process.poll() is not None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    # macOS raises PermissionError for a group that is gone.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _post_mortem(
    job: Job, code: int, hang: Beat | None, oom_killed: bool, held_bytes: int | None
) -> WorkerOutcome:
    """The outcome of a worker that wrote no outcome.json. `held_bytes`: the most memory that the
    worker used; None: not known.
    """
    where = f"making the {job.test}" if job.test == REFERENCE else f"in the {job.test} test"
    log = f"see {job.log_dir / 'worker.log'}"
    if hang:
        return WorkerOutcome(
            "error",
            f"hung {where}, phase {hang.phase}: no progress after {hang.completed} in"
            f" {hang.limit_s} s; ended; {log}",
        )
    if code == -signal.SIGKILL and oom_killed:
        held = (
            f", at {held_bytes:,} bytes of this machine's {_memory_bytes():,}" if held_bytes else ""
        )
        return WorkerOutcome(
            "oom",
            f"the kernel killed the worker {where} for want of memory{held}: choose a smaller"
            " --size or --batch-size",
        )
    if free_bytes(job.log_dir) < 1 << 20:
        return WorkerOutcome(
            "error",
            f"the disk of {job.log_dir} is full {where}: free some space or choose another --out",
        )
    if code < 0:
        return WorkerOutcome(
            "error", f"the worker was killed {where} by signal {signal.Signals(-code).name}; {log}"
        )
    return WorkerOutcome(
        "error", f"the worker ended {where} with exit code {code} and no outcome; {log}"
    )


def free_bytes(path: Path) -> int:
    """The bytes that an ordinary user can still write at `path`."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _peak_bytes(whose: int) -> int:
    """The most memory that this process, or one of its ended children, used."""
    return resource.getrusage(whose).ru_maxrss * 1024


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _kernel_oom_kills() -> int:
    """Out-of-memory kills so far: the kernel's count for the machine plus that of this control
    group.
    """
    total = 0
    for path in ("/proc/vmstat", "/sys/fs/cgroup/memory.events"):
        with suppress(OSError):
            for line in Path(path).read_text(encoding="ascii").splitlines():
                if line.startswith("oom_kill "):
                    total += int(line.split()[1])
    return total
