"""One LoadGen test of a cell. It is kept from an earlier attempt if its job is the same, and else
run in a worker.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from compliance import logs
from compliance.rules import Rules
from formats.job import Job
from formats.outcome import WorkerOutcome
from formats.writing import read_json
from harness.execution import rundir
from harness.execution.process import Worker
from scenarios.worker.heartbeat import Beat, OnBeat

SHORT_TEST = "TEST06"
"""Its audit.config requests only a hundred answers."""
_LOWER = 0.95
"""The factor on a rate of requests at which latencies were over their limits."""


def compliance_job(test: str, job: Job, of: Rules, official: str) -> Job:
    """The job of a compliance test, made from the performance test's job with its calibration: the
    same user.conf, and an audit.config.
    """
    audit = of.compliance_tests[test].settings(official)
    return replace(job, test=test, log_dir=job.log_dir.with_name(test), audit=audit)


def expected_seconds(names: Sequence[str], performance: WorkerOutcome) -> float:
    """Estimate how many seconds these compliance tests will take. Each counts as many as the
    performance test took.

    SHORT_TEST counts as 0.
    """
    return sum(performance.test_ns / 1e9 for name in names if name != SHORT_TEST)


class Reporter(Protocol):
    """A receiver of progress. The command line uses terminal.Terminal."""

    def say(self, text: str) -> None:
        """Show one line."""

    def warn(self, text: str) -> None:
        """Show one line, even if the command is quiet."""

    def watch(self, what: str) -> OnBeat:
        """Return the function to call with each new heartbeat of a worker."""

    def planned(self, test: str, plan: dict[str, Any]) -> None:
        """Show what a test will cost (plan.json)."""


def run(job: Job, worker: Worker, reporter: Reporter) -> WorkerOutcome:
    """Run the test, or keep an earlier one. → its outcome. The logs are in job.log_dir."""
    test = job.test
    if earlier := rundir.kept(job):
        reporter.say(f"{test}: kept from an earlier attempt")
        return earlier
    log_dir = job.log_dir
    log_dir.mkdir(parents=True)
    draw = reporter.watch(test)
    plan_file = log_dir / "plan.json"
    shown = False

    def watch(beat: Beat) -> None:
        nonlocal shown
        if not shown and plan_file.exists():
            reporter.planned(test, read_json(plan_file))
            shown = True
        draw(beat)

    outcome = worker.run(job, watch)
    if (
        outcome.status == "ok"
        and job.procedure == "loadgen"
        and not (log_dir / "mlperf_log_detail.txt").exists()
    ):
        reason = f"LoadGen wrote no log in the {test} test; see {log_dir / 'worker.log'}"
        return replace(outcome, status="error", reason=reason)
    return outcome


def better_calibration(job: Job, outcome: WorkerOutcome) -> tuple[dict[str, float], str] | None:
    """The calibration with which a test should be repeated, and why. None: LoadGen calls it VALID,
    or another calibration does not help.
    """
    if outcome.status != "ok" or job.procedure != "loadgen":
        return None
    detail = logs.read_detail(job.log_dir / "mlperf_log_detail.txt")
    calibration = outcome.calibration
    if job.serves:
        kept_up = outcome.queue is not None and outcome.queue.kept_up
        valid = detail.get("result_validity") == "VALID" and kept_up
        if valid or job.cell.rate:
            return None
        rate = calibration["rate"]
        lower = _LOWER * rate
        why = "within the limits" if kept_up else "without a growing queue"
        reason = (
            f"the SUT did not hold {rate:.4g} requests/s {why}; measured once more at {lower:.4g}"
        )
        return {**calibration, "rate": lower}, reason
    rate = detail.get("result_samples_per_second") or detail.get(
        "result_qps_without_loadgen_overhead"
    )
    if not job.limits.quick or detail.get("result_min_duration_met") is not False or not rate:
        return None
    sample_ns = 1e9 / rate
    reason = (
        "over sooner than LoadGen's least duration; measured once more, at the rate that it showed"
    )
    return {
        **calibration,
        "fastest_sample_ns": sample_ns,
        "median_sample_ns": sample_ns,
    }, reason


def compressed_trace(log_dir: Path) -> str | None:
    """Compress LoadGen's trace, if it wrote one, to .json.gz. → sha256 of the uncompressed trace,
    or None.
    """
    trace = log_dir / "mlperf_log_trace.json"
    packed = log_dir / rundir.TRACE
    if trace.exists() and trace.stat().st_size:
        with trace.open("rb") as whole, gzip.GzipFile(packed, "wb", mtime=0) as target:
            shutil.copyfileobj(whole, target, 1 << 20)
        trace.unlink()
    if not packed.exists():
        return None
    with gzip.open(packed) as whole:
        return hashlib.file_digest(whole, "sha256").hexdigest()
