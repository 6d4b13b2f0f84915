"""One attempt at a cell: what was asked, what was made for it, and the jobs of its tests."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compliance.logs import files
from formats.cell import Cell
from formats.job import TESTS, Job
from formats.record import Git
from harness.execution import loadgen_run, machine
from harness.execution.environments import Environment
from harness.inputs.checkpoint import Checkpoint
from harness.inputs.dataset import Inputs
from harness.measurement.reference import Reference, logits_rows, workload_config
from harness.request.request import Request
from sut import variables as environment_variables
from sut.contract import Workload
from sut.registry import FIT


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What all tests of a cell have in common.

    Attributes:
        inputs: the samples; `synthetic` and `fresh` are further ones, to warm up with and to tell
            kept answers by.
        setup_seconds: what was made before the tests → how long that took.
        started_monotonic_ns: when the user's command began.
    """

    request: Request
    cell: Cell
    environment: Environment
    inputs: Inputs
    checkpoint: Checkpoint
    reference: Reference
    setup_seconds: Mapping[str, float]
    started_monotonic_ns: int

    @cached_property
    def git(self) -> Git:
        """What `machine.git` says of this source tree."""
        return machine.git()

    @cached_property
    def made_with(self) -> Mapping[str, str]:
        """The digests of what the tests are made with, and environment variables. A resumed run
        keeps a test only if all are the same.
        """
        return {
            "environment": self.environment.lock_sha256,
            "source": self.git.worker_source_sha256,
            "variables": json.dumps(environment_variables.read_by_any(os.environ)),
            "inputs": files.sha256(self.inputs.path),
            "synthetic": files.sha256(self.inputs.synthetic),
            "fresh": files.sha256(self.inputs.fresh),
        }


def make_job(
    attempt: Attempt, directory: Path, test: str, calibration: Mapping[str, float] | None
) -> Job:
    """The job of one test, complete.

    Args:
        directory: the run directory.
        calibration: the performance test's, for the tests after it.
    """
    request, inputs = attempt.request, attempt.inputs
    job = Job(
        sut=request.asked.sut,
        family=request.model.family,
        workload=_workload(attempt),
        scenario=request.asked.scenario,
        test=test,
        benchmark=request.benchmark,
        answer=("loss",) if request.trains else request.model.answer_keys,
        procedure=FIT if request.trains else "loadgen",
        inputs=inputs.path,
        synthetic=inputs.synthetic,
        fresh=inputs.fresh,
        warmup_rows=inputs.warmup_rows,
        limits=request.limits(inputs.count, inputs.description.uneven or bool(request.end_tokens)),
        log_dir=directory / "raw" / test,
        reference=attempt.reference.path,
        logits_rows=logits_rows(request, inputs),
        calibration=calibration,
        made_with=attempt.made_with,
    )
    return (
        job
        if test in TESTS
        else loadgen_run.compliance_job(test, job, request.rules, request.official)
    )


def _workload(attempt: Attempt) -> Workload:
    request = attempt.request
    return Workload(
        model=request.model.name,
        task=request.task,
        config=workload_config(request, attempt.inputs),
        checkpoint=attempt.checkpoint.path,
        precision=request.precision,
        batch_size=request.batch_size,
        device=request.device,
        backend=request.spec.backend,
        execution=request.spec.execution,
        options=dict(request.options),
    )
