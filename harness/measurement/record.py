"""The record of an attempt, before its first test."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from formats.record import Record
from harness.execution import machine
from harness.inputs import limits
from harness.inputs.families.text import SEED
from harness.measurement.attempt import Attempt
from harness.request.request import Request
from sut import variables as environment_variables
from sut.registry import framework_of


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
