"""record.json: what a reader a year from now would ask about a run. compliance/schemas/record.json describes it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.cell import Cell, SweepMark
from harness.execution import machine
from harness.inputs import limits
from harness.inputs.families.text import SEED
from harness.measurement.attempt import Attempt
from harness.request.request import Request
from scenarios.worker.job import WorkerOutcome
from sut import variables as environment_variables
from sut.registry import framework_of


@dataclass(frozen=True, kw_only=True)
class Record:
    """One field for each key of the file.

    Attributes:
        qsl: how many inputs there are, how long they are, and whose.
        accuracy: the score, the keys of the answers, the tolerance; `reason` where there is no reference.
        digests: BLAKE3 of the weights; sha256 of inputs, reference and, once it is written, LoadGen's trace.
        inputs, answers: name of an array → `dtype`, and `shape` without the axis of samples (None: as long as each sample's own).
            Answers are told by the worker.
        framework: the one that computes, in words, whose evidence holds counters of its own; empty: the SUT runs on none.
        parameters: of the checkpoint; tied ones count once.
        training: how many `parameters` are trained, of the model's or of LoRA's beside them; what the names of the model's own begin with
            if only a `part` of it is trained, else empty; the `seed` of synthetic inputs, else None; the
            `benchmark` and the `ruleset` of MLPerf Training whose keys its log has. None: nothing is trained.
        least_flops: floating-point operations of a sample, on average and at least; None: not known, or it ends where its answer does.
        environment: name, interpreter, lock, variables and, once a worker told them, versions.
        command_seconds: of the command that measured it: of the worker of each test, under the test's name, of `audit` (the tree is
            written and audited), and the `total`.
        sweep: the measurement of a sweep that it is; None: it was measured by itself.
        notes: defaults that were chosen, and what else a reader of the result should know.
    """

    cell: Cell
    mode: str
    round: str
    command: str
    submitter: str
    benchmark: Mapping[str, str]
    family: str
    execution: str
    framework: str
    loadgen: str
    qsl: Mapping[str, Any]
    accuracy: Mapping[str, Any]
    digests: Mapping[str, Any]
    inputs: Mapping[str, Any]
    answers: Mapping[str, Any]
    new_tokens_per_sample: float | None
    end_tokens: tuple[int, ...]
    parameters: int
    training: Mapping[str, Any] | None
    least_flops: float | None
    machine: Mapping[str, Any]
    git: Mapping[str, Any]
    environment: Mapping[str, Any]
    notes: tuple[str, ...]
    setup_seconds: Mapping[str, float]
    started_monotonic_ns: int
    working_directory: str
    process_id: int
    started: str
    sweep: SweepMark | None
    command_seconds: Mapping[str, float] = field(default_factory=dict)
    schema: str = "record-2"

    def after(self, test: str, seconds: float, outcome: WorkerOutcome, trace: str | None) -> Record:
        """The record with what a test told: its environment's versions, its answers and, if not None, the digest of its trace."""
        seconds_so_far = {**self.command_seconds, test: round(seconds, 3)}
        digests = self.digests if trace is None else {**self.digests, "trace": trace}
        environment = {**self.environment, "versions": dict(outcome.versions)}
        return replace(self, environment=environment, answers=outcome.answers, digests=digests, command_seconds=seconds_so_far)

    def ended(self, audit_seconds: float) -> Record:
        """The record with the seconds that the command took until now."""
        total = (time.monotonic_ns() - self.started_monotonic_ns) / 1e9
        return replace(self, command_seconds={**self.command_seconds, "audit": round(audit_seconds, 3), "total": round(total, 3)})


def make(attempt: Attempt) -> Record:
    """The record of an attempt, before its first test."""
    request, environment = attempt.request, attempt.environment
    return Record(
        cell=attempt.cell,
        mode=request.asked.mode,
        round=request.rules.round,
        command=request.asked.command,
        working_directory=str(Path.cwd()),
        submitter=request.asked.submitter,
        benchmark={"name": request.benchmark, "official": request.official},
        family=request.model.family,
        execution=request.spec.execution,
        framework=framework_of(request.asked.sut),
        loadgen=request.rules.wheel,
        qsl=_qsl(attempt),
        accuracy=_accuracy(attempt),
        digests=_digests(attempt),
        inputs=attempt.inputs.arrays,
        answers={},
        new_tokens_per_sample=attempt.inputs.description.new_tokens_per_sample,
        end_tokens=request.end_tokens,
        parameters=request.size.parameters,
        training=_training(request),
        least_flops=None if request.end_tokens else attempt.inputs.least_flops,
        machine=machine.describe(),
        git=attempt.git,
        process_id=os.getpid(),
        environment={
            "name": environment.name,
            "python": str(environment.python),
            "lock_sha256": environment.lock_sha256,
            "versions": {},
            "variables": environment_variables.read_by_any(os.environ),
        },
        notes=(*request.reasons, *attempt.inputs.notes, *environment.notes),
        setup_seconds=dict(attempt.setup_seconds),
        started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        started_monotonic_ns=attempt.started_monotonic_ns,
        sweep=request.asked.sweep,
    )


def _training(request: Request) -> dict[str, Any] | None:
    if not request.trains:
        return None
    seed = SEED if request.asked.dataset is None else None
    part = ", ".join(request.model.fit.get("trained", []))
    return {"parameters": request.trained_parameters, "part": part, "seed": seed, **request.model.fit["log"]}


def _qsl(attempt: Attempt) -> dict[str, Any]:
    inputs, dataset = attempt.inputs, attempt.request.asked.dataset
    return {
        "samples": inputs.count,
        "performance_sample_count": inputs.count,
        **inputs.description.lengths,
        **{key: value for key, value in attempt.request.size.config.items() if key == "denoising_steps"},
        "synthetic": dataset is None,
        "dataset": dataset and str(dataset.absolute()),
    }


def _accuracy(attempt: Attempt) -> dict[str, Any]:
    request, reason = attempt.request, attempt.reference.reason
    model, size = request.model, request.size
    if answers := attempt.inputs.description.config.get("new_token_buckets"):  # prompts of a file may ask for longer ones than the size
        size = replace(size, inputs={**size.inputs, "new_tokens": max(answers)})
    place = (model, size, request.precision, request.device)
    judged: dict[str, Any] = {
        "score": model.score,
        "keys": list(model.answer_keys),
        "tolerance": limits.of_training(*place) if request.trains else limits.limits(*place, request.asked.sut, attempt.inputs.count),
    }
    if request.trains:
        judged |= {"score": "loss_curve", "keys": ["loss"]}
    return judged | ({"reason": reason} if reason else {})


def _digests(attempt: Attempt) -> dict[str, Any]:
    request = attempt.request
    return {
        "weights": attempt.checkpoint.digest,
        "weights_source": _weights_source(request),
        "weights_folder": str(request.weights.path) if request.weights and request.spec.reads_weights else None,
        "inputs": attempt.inputs.digest,
        "reference": attempt.reference.digest,
    }


def _weights_source(request: Request) -> str:
    if not request.spec.reads_weights:
        return "none"
    return "user" if request.weights else "seeded"
