"""Finds what an earlier repeat of the same cell in the same sweep has measured."""

from __future__ import annotations

from pathlib import Path

from formats import reading
from formats.job import PERFORMANCE, Job, Known
from formats.outcome import WorkerOutcome
from formats.record import Record
from formats.result import Result, Status
from harness.comparison.runs import machine_words
from harness.execution import rundir
from harness.execution.process import read_outcome
from harness.measurement.attempt import Attempt
from results import disturbance, figures


def find(attempt: Attempt) -> Known | None:
    """The measurements of the latest good and undisturbed repeat. None if there is none, or if the
    machine or something that a test is made with has changed since then.
    """
    request = attempt.request
    options = request.options
    # Nodes of a cluster may be others each time.
    if options.sweep is None or request.trains or request.launch:
        return None
    for directory in reversed(rundir.attempts(options.out / attempt.cell.name, options.mode)):
        outcome = read_outcome(directory / "raw" / PERFORMANCE)
        if outcome and _is_same(directory, attempt):
            return _known(outcome)
    return None


def _is_same(directory: Path, attempt: Attempt) -> bool:
    """Return whether the repeat was good, of this sweep, and measured with the same things."""
    options = attempt.request.options
    assert options.sweep
    try:
        record = reading.from_file(directory / "record.json", Record)
        job = reading.from_file(directory / "raw" / PERFORMANCE / "job.json", Job)
        result = reading.from_file(directory / "result.json", Result)
    except (OSError, ValueError):
        return False
    noise = disturbance.of_others(result.disturbance, record.cell, record.execution)
    disturbances, _ = disturbance.sentences(noise, record.threads)
    return (
        result.status == Status.OK
        and not disturbances
        and record.sweep is not None
        and record.sweep.id == options.sweep.id
        and machine_words(record.machine) == machine_words(attempt.machine)
        and job.made_with == attempt.made_with
    )


def _known(outcome: WorkerOutcome) -> Known | None:
    """Returns None if the test counted no sample."""
    samples = outcome.answered.get("samples")
    if not samples:
        return None
    sample_ns = outcome.test_ns / samples
    measured = {"fastest_sample_ns": sample_ns, "median_sample_ns": sample_ns, "spent_ns": 0}
    found = outcome.calibration.get("rate")
    return Known(
        calibration={} if found else {**outcome.calibration, **measured},
        rate=found,
        second_ns=figures.second_ns(outcome),
        matrix_flops=outcome.evidence_after.matrix_flops if outcome.evidence_after else None,
    )
