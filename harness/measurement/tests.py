"""The tests of a cell, one after another in one worker, which loads and warms up the SUT once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from formats.job import PERFORMANCE, Calibration, Job
from formats.outcome import WorkerOutcome
from formats.record import Record
from formats.writing import write_json
from harness.execution import loadgen_run, rundir
from harness.execution.loadgen_run import Reporter
from harness.execution.process import Worker

# How often a test is repeated: on a busy machine a SUT may get faster during each measurement, and
# a rate of requests may be too high after all.
_AGAIN = 3


def run(
    tests: Iterable[str],
    *,
    job_of: Callable[[str, Calibration | None], Job],
    directory: Path,
    record: Record,
    worker: Worker,
    reporter: Reporter,
    after_performance: Callable[[WorkerOutcome], None] = lambda outcome: None,
    fault: Callable[[], str] = lambda: "",
) -> tuple[WorkerOutcome, Record]:
    """Run tests until one fails, and add the report of each to the record. → (the last outcome, the
    record).

    Args:
        tests: at least one of `formats.job.TESTS` and the compliance tests, in their order.
        job_of: (test, calibration of the performance test, if it has run) → the test's job.
        directory: the run directory.
        worker: runs all of them.
        after_performance: called with the outcome of a good performance test.
        fault: called after each test: why its outcome cannot count; empty: it counts.
    """
    calibration: Calibration | None = None
    for test in tests:
        job = job_of(test, calibration)
        start_s = time.monotonic()
        outcome = _run_test(job, worker, reporter)
        seconds = time.monotonic() - start_s
        reason = fault()
        if reason and outcome.status == "ok":
            outcome = replace(outcome, status="error", reason=reason)
        if outcome.status != "ok":
            rundir.release_reserve(directory)
            write_json(job.log_dir / "outcome.json", outcome)
            break
        if test == PERFORMANCE:
            calibration = outcome.calibration
            after_performance(outcome)
        trace = loadgen_run.compressed_trace(job.log_dir)
        record = record.after(test, seconds, outcome, trace if test == PERFORMANCE else None)
        write_json(directory / "record.json", record)
    return outcome, record


def _run_test(job: Job, worker: Worker, reporter: Reporter) -> WorkerOutcome:
    """Run one test. Run it again if LoadGen calls it INVALID because of its calibration: a quick
    test ended much sooner than calibrated, or latencies were over their limits at the found rate.
    """
    outcome = loadgen_run.run(job, worker, reporter)
    if job.test != PERFORMANCE:
        return outcome
    for _ in range(_AGAIN):
        better = loadgen_run.better_calibration(job, outcome)
        if better is None:
            break
        calibration, reason = better
        reporter.say(f"performance: {reason}")
        rundir.set_aside(job.log_dir)
        again = loadgen_run.run(replace(job, calibration=calibration), worker, reporter)
        outcome = replace(again, search=outcome.search)
        write_json(job.log_dir / "outcome.json", outcome)
    return outcome
