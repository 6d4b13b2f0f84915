"""Workers whose jobs have processes of their own: replicas, and ranks of a SUT."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from formats.job import Job
from formats.outcome import WorkerOutcome
from harness.execution.process import Worker


def both_tests(job: Job) -> tuple[WorkerOutcome, WorkerOutcome]:
    """The outcomes of the timed and of the judged test, which one worker does."""
    with Worker(Path(sys.executable), {}) as worker:
        timed = run(worker, job)
        assert timed.status == "ok", timed.reason
        folder = job.log_dir.with_name("accuracy")
        judged = replace(job, test="accuracy", log_dir=folder, calibration=timed.calibration)
        outcome = run(worker, judged)
    assert outcome.status == "ok", outcome.reason
    return timed, outcome


def run(worker: Worker, job: Job) -> WorkerOutcome:
    """The outcome of a job, whose folder is made."""
    job.log_dir.mkdir(parents=True, exist_ok=True)
    return worker.run(job, lambda beat: None)


def assert_all_end_with_the_worker(job: Job) -> None:
    """Kill the worker while it measures: its processes end, too."""
    with Worker(Path(sys.executable), {}) as worker:

        def kill(beat):
            if beat.phase in ("calibrate", "test"):
                os.kill(worker._process.pid, signal.SIGKILL)

        outcome = worker.run(job, kill)
        assert "killed in the performance test by signal SIGKILL" in outcome.reason
        assert gone(job.log_dir)


def of_job(log_dir: Path) -> list[int]:
    """The processes whose command names a job's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if str(log_dir).encode() in words:
            found.append(int(path.parent.name))
    return found


def gone(log_dir: Path, seconds: float = 3) -> bool:
    """Whether all of them end in so many seconds."""
    deadline = time.monotonic() + seconds
    while of_job(log_dir) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not of_job(log_dir)
