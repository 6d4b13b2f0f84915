"""One attempt at a cell: its request, the files prepared for it, and the jobs of its tests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from compliance.logs import files
from formats.cell import Cell
from formats.job import LOADGEN, PROFILE, SERVE, TESTS, Calibration, Job, Known
from formats.record import Git, Machine
from formats.work import Work
from harness.execution import kernels, loadgen_run, machine
from harness.execution.environments import Environment
from harness.execution.zygotes import Zygotes
from harness.inputs.checkpoint import Checkpoint
from harness.inputs.dataset import Inputs
from harness.measurement import engines
from harness.request.request import Request
from scenarios.worker.queries import length_buckets
from sut import variables as environment_variables
from sut.registry import FIT, spec_of

EnvironmentOf = Callable[[str], Environment]
"""Name of a SUT or of a reference → its environment."""


@dataclass(frozen=True)
class Reference:
    """A reference and its digest. If `path` is None, there is none, and `reason` says why.

    Attributes:
        limits: the limits of the answers, if they follow from those of the reference; else empty.
        work: the operations and elements of a sample; None: they are not known.
        notes: why they are not known, if the worker could not count them, and who judges.
        agreeing: the frameworks of the references that agree, if there are several.
        seconds: step → its seconds, if it was made now; else empty.
    """

    path: Path | None
    digest: str = ""
    reason: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)
    work: Work | None = None
    notes: tuple[str, ...] = ()
    agreeing: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The values that all tests of a cell share.

    Attributes:
        inputs: the samples; `synthetic` are further ones to warm up with, and `fresh` are for
            detecting kept answers.
        setup_seconds: step before the tests → its seconds.
        started_monotonic_ns: when the user's command began.
        known: what an earlier repeat in the same sweep has measured; None: there is none.
        zygotes: of the sweep, to fork the worker; None: it gets a process of its own.
    """

    request: Request
    cell: Cell
    environment: Environment
    inputs: Inputs
    checkpoint: Checkpoint
    reference: Reference = Reference(None)
    setup_seconds: Mapping[str, float] = field(default_factory=dict)
    started_monotonic_ns: int = 0
    known: Known | None = None
    zygotes: Zygotes | None = None

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
        request = self.request
        cache = request.options.cache
        device = request.device
        places = request.places
        return kernels.folder(cache, self.environment, self.machine, device, places)

    @property
    def converted(self) -> Path:
        """The folder for what the SUT's tools convert the weights to."""
        cache, device = self.request.options.cache, self.request.device
        return kernels.converted(cache, self.environment, device, self.checkpoint.digest)

    @property
    def process_env(self) -> dict[str, str]:
        """The environment variables of the SUT's worker, in addition to those of the device."""
        switches = self.request.tuned.variables
        return {**kernels.variables(self.kernels), **switches, **self.request.spec.process_env}

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

    @property
    def logits_rows(self) -> int:
        """How many rows are also judged by teacher-forced logits. 0 for a training and for a model
        that generates no tokens.
        """
        if self.request.trains:
            return 0
        return min(self.request.model.logits_rows, self.inputs.count)

    @property
    def workload_config(self) -> dict[str, object]:
        """The description of the model for a SUT: its configuration, class names, the shapes of its
        inputs and the end tokens.

        For a training the description also contains the optimizer, whose AdamW it is, and the LoRA
        settings.
        """
        request = self.request
        config: dict[str, object] = {
            "model": dict(request.size.config),
            "classes": dict(request.model.classes),
            **self.inputs.description.config,
        }
        if request.architecture.generates_tokens:
            config["end_tokens"] = list(request.end_tokens)
        if request.trains:
            config |= {"optimizer": request.optimizer, "adamw": request.adamw}
        if request.lora_config:
            config["lora"] = request.lora_config
        return config

    def job(self, cell: Cell, log_dir: Path, **more: Any) -> Job:
        """The job of a worker that loads the SUT of a cell, or its reference.

        `more`: the other fields of the job.
        """
        spec = spec_of(cell.sut)
        return Job(
            cell=cell,
            architecture=self.request.model.architecture,
            checkpoint=self.checkpoint.path,
            backend=spec.backend,
            execution=spec.execution,
            inputs=self.inputs.path,
            synthetic=self.inputs.synthetic,
            warmup_rows=self.inputs.warmup_rows,
            log_dir=log_dir,
            **more,
        )


def make_job(attempt: Attempt, log_dir: Path, test: str, calibration: Calibration | None) -> Job:
    """The complete job of a test, or of serving or a profile.

    Args:
        log_dir: the folder of the job's files.
        calibration: that of the performance test, for the tests after it.
    """
    request = attempt.request
    inputs = attempt.inputs
    known = attempt.known
    if calibration is None and known:
        calibration = known.calibration or None
    # Neither serving nor a profile is resumed.
    is_test = test not in (SERVE, PROFILE)
    procedure = FIT if request.trains else LOADGEN
    job = attempt.job(
        attempt.cell,
        log_dir,
        test=test,
        procedure=procedure if is_test else test,
        config={**attempt.workload_config, **engines.config(request)},
        settings=request.tuned.settings,
        converted=attempt.converted,
        benchmark=request.loadgen_name,
        answer=("loss",) if request.trains else request.model.answer_keys,
        fresh=inputs.fresh,
        limits=request.limits(inputs.count, inputs.description.uneven or bool(request.end_tokens)),
        reference=attempt.reference.path,
        logits_rows=0 if request.spec.remote else attempt.logits_rows,
        calibration=calibration,
        known=known,
        batch_sizes=request.batch_sizes,
        percentile=request.serving.percentile if request.serving else None,
        made_with=attempt.made_with if is_test else {},
        variables=request.tuned.variables,
        places=request.places,
        launch=request.launch,
        length_buckets=_length_buckets(attempt),
    )
    if not is_test or test in TESTS:
        return job
    return loadgen_run.compliance_job(test, job, request.rules, request.official)


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
