"""One attempt at a cell: its request, the files prepared for it, and the jobs of its tests."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compliance.logs import files
from formats.cell import Cell
from formats.job import TESTS, Job, Known
from formats.record import Git, Machine
from harness.execution import kernels, loadgen_run, machine
from harness.execution.environments import Environment
from harness.inputs.checkpoint import Checkpoint
from harness.inputs.dataset import Inputs
from harness.measurement import engines
from harness.measurement.reference import Reference, logits_rows, workload_config
from harness.request.request import Request
from scenarios.worker import length_buckets
from sut import variables as environment_variables
from sut.contract import Workload
from sut.registry import FIT


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The values that all tests of a cell share.

    Attributes:
        inputs: the samples; `synthetic` are further ones to warm up with, and `fresh` are for
            detecting kept answers.
        setup_seconds: step before the tests → its seconds.
        started_monotonic_ns: when the user's command began.
        known: what an earlier repeat in the same sweep has measured; None: there is none.
    """

    request: Request
    cell: Cell
    environment: Environment
    inputs: Inputs
    checkpoint: Checkpoint
    reference: Reference
    setup_seconds: Mapping[str, float]
    started_monotonic_ns: int
    known: Known | None = None

    @cached_property
    def git(self) -> Git:
        """The revision of this source tree (`machine.git`)."""
        return machine.git()

    @cached_property
    def machine(self) -> Machine:
        """The state of this machine before the first test."""
        return machine.describe()

    @cached_property
    def kernels(self) -> Path:
        """The folder for the SUT's compiled programs."""
        cache, device = self.request.options.cache, self.request.device
        places = self.request.places
        return kernels.folder(cache, self.environment, self.machine, device, places)

    @cached_property
    def made_with(self) -> Mapping[str, str]:
        """Environment variables, and digests of the environment, the source and the inputs. A
        resumed run keeps a test only if all are the same.
        """
        return {
            "environment": self.environment.lock_sha256,
            "source": self.git.worker_source_sha256,
            "variables": json.dumps(environment_variables.read_by_any(os.environ)),
            "switches": json.dumps(self.request.tuned.variables),
            "inputs": files.sha256(self.inputs.path),
            "synthetic": files.sha256(self.inputs.synthetic),
            "fresh": files.sha256(self.inputs.fresh),
        }


def make_job(
    attempt: Attempt, directory: Path, test: str, calibration: Mapping[str, float] | None
) -> Job:
    """The complete job of one test.

    Args:
        directory: the run directory.
        calibration: that of the performance test, for the tests after it.
    """
    request, inputs = attempt.request, attempt.inputs
    if calibration is None and attempt.known:
        calibration = attempt.known.calibration or None
    job = Job(
        sut=request.options.sut,
        architecture=request.model.architecture,
        workload=_workload(attempt),
        scenario=request.options.scenario,
        test=test,
        benchmark=request.loadgen_name,
        answer=("loss",) if request.trains else request.model.answer_keys,
        procedure=FIT if request.trains else "loadgen",
        inputs=inputs.path,
        synthetic=inputs.synthetic,
        fresh=inputs.fresh,
        warmup_rows=inputs.warmup_rows,
        limits=request.limits(inputs.count, inputs.description.uneven or bool(request.end_tokens)),
        log_dir=directory / "raw" / test,
        reference=attempt.reference.path,
        logits_rows=0 if request.spec.remote else logits_rows(request, inputs),
        calibration=calibration,
        known=attempt.known,
        stream=request.stream,
        batch_sizes=request.batch_sizes,
        serving=request.serving,
        made_with=attempt.made_with,
        variables=request.tuned.variables,
        places=request.places,
        launch=request.launch,
        length_buckets=_length_buckets(attempt),
    )
    return (
        job
        if test in TESTS
        else loadgen_run.compliance_job(test, job, request.rules, request.official)
    )


def _length_buckets(attempt: Attempt) -> tuple[int, ...]:
    """The widths to which batches are cut. Empty if no switch requests it. Prompts of a model that
    generates are only sorted, because each SUT has buckets of its own for them (`sut.padding`).
    """
    count = attempt.request.tuned.buckets
    if not count:
        return ()
    arrays = attempt.inputs.arrays
    (width,) = arrays["input_ids"].shape
    assert width is not None
    return length_buckets.widths(width, count if "attention_mask" in arrays else 1)


def _workload(attempt: Attempt) -> Workload:
    request = attempt.request
    return Workload(
        model=request.model.name,
        task=request.task,
        config={
            **workload_config(request, attempt.inputs.description.config),
            **engines.config(request),
        },
        checkpoint=attempt.checkpoint.path,
        precision=request.precision,
        batch_size=request.batch_size,
        device=request.device,
        backend=request.spec.backend,
        execution=request.spec.execution,
        options=dict(request.sut_options),
        switches=request.tuned.names,
        settings=request.tuned.settings,
    )
