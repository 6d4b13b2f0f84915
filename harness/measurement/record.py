"""The record of an attempt, before its first test."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

from formats.record import (
    BenchmarkNames,
    Digests,
    InputFacts,
    Judged,
    Official,
    Record,
    SutEnvironment,
    Trained,
)
from formats.work import Roof
from harness.execution import kernels
from harness.execution import limits as machine_limits
from harness.inputs import limits
from harness.inputs.architectures import SEED
from harness.measurement import engines
from harness.measurement.attempt import Attempt
from harness.request.request import Request
from sut import known_differences
from sut.registry import framework_of


def make(attempt: Attempt) -> Record:
    """The record of an attempt, before its first test."""
    request = attempt.request
    environment = attempt.environment
    notes = (
        *request.reasons,
        *attempt.inputs.notes,
        *environment.notes,
        *attempt.reference.notes,
    )
    recorded = machine_limits.recorded(environment)
    return Record(
        cell=attempt.cell,
        mode=request.options.mode,
        round=request.rules.round,
        command=request.options.command,
        working_directory=str(Path.cwd()),
        submitter=request.options.submitter,
        benchmark=BenchmarkNames(name=request.benchmark, official=request.official),
        architecture=request.model.architecture,
        execution=request.spec.execution,
        framework=framework_of(request.options.sut),
        loadgen=request.rules.wheel,
        qsl=_qsl(attempt),
        accuracy=_accuracy(attempt),
        digests=_digests(attempt),
        inputs=attempt.inputs.arrays,
        new_tokens_per_sample=attempt.inputs.description.new_tokens_per_sample,
        end_tokens=request.end_tokens,
        parameters=request.size.parameters or None,
        model_facts=request.size.facts,
        official=_official(request),
        system=request.system,
        training=_training(request),
        least_flops=None if request.end_tokens else attempt.inputs.least_flops,
        work=attempt.reference.work,
        roof=_roof(attempt, recorded),
        machine=attempt.machine,
        git=attempt.git,
        process_id=os.getpid(),
        environment=replace(recorded, variables={**recorded.variables, **request.tuned.variables}),
        notes=tuple(dict.fromkeys(notes)),
        setup_seconds=dict(attempt.setup_seconds),
        started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        started_monotonic_ns=attempt.started_monotonic_ns,
        sweep=request.options.sweep,
        first_compile_seconds=kernels.first_seconds(attempt.kernels, attempt.cell),
    )


def _roof(attempt: Attempt, environment: SutEnvironment) -> Roof | None:
    """The kept limits of the SUT's framework in the precision of the cell.

    The matrix rate is that of the faster of two shapes. A switch of a tuned cell may take another
    way to multiply, so it is that of the fastest way there. The bandwidth is that of the faster of
    two ways to read: a sum over an array, and a product of one row with a matrix.
    """
    request = attempt.request
    here = attempt.machine
    if attempt.cell.threads:
        here = replace(here, usable_threads=attempt.cell.threads)
    found = machine_limits.known(
        request.options.cache, environment, here, request.device, request.precision
    )
    if found is None:
        return None
    rates = [found.matrix_flops.median, found.layer_flops.median]
    if request.tuned.switches:
        rates += [spread.median for spread in found.other_matrix_flops.values()]
    of_sum = found.read_bytes_per_second.median
    of_product = found.thin_bytes_per_second.median
    return Roof(matrix_flops=max(rates), read_bytes_per_second=max(of_sum, of_product))


def _official(request: Request) -> Official | None:
    run = request.official_run
    if run is None:
        return None
    return Official(
        metric=run.workload.metric,
        suite=run.suite,
        files=run.digests,
        lacks=run.lacks,
        not_closed=run.not_closed,
    )


def _training(request: Request) -> Trained | None:
    if not request.trains:
        return None
    return Trained(
        parameters=request.trained_parameters,
        part=", ".join(request.model.fit.get("trained", [])),
        loss=", ".join(filter(None, request.size.inputs.get("losses", ()))),
        seed=SEED if request.options.dataset is None else None,
    )


def _qsl(attempt: Attempt) -> InputFacts:
    inputs = attempt.inputs
    request = attempt.request
    dataset = request.options.dataset
    return InputFacts(
        samples=inputs.count,
        performance_sample_count=request.loaded(inputs.count),
        **inputs.description.lengths,
        denoising_steps=request.size.config.get("denoising_steps"),
        synthetic=dataset is None,
        dataset=None if dataset is None else str(dataset.absolute()),
    )


def _accuracy(attempt: Attempt) -> Judged:
    request = attempt.request
    model = request.model
    size = request.size
    reference = attempt.reference
    reason = reference.reason or ""
    if answers := attempt.inputs.description.config.get("new_token_buckets"):
        # Prompts of a file may request longer answers than those of the size.
        size = replace(size, inputs={**size.inputs, "new_tokens": max(answers)})
    score = model.score
    keys = tuple(model.answer_keys)
    tolerance = reference.limits
    place = (model, size, request.precision, request.device)
    if request.spec.remote:
        score = engines.SCORE
        tolerance = engines.tolerance(model, size, request.device)
    elif request.trains:
        score = "loss_curve"
        keys = ("loss",)
        tolerance = tolerance or limits.of_training(*place, request.options.sut)
    elif attempt.cell.quantized:
        tolerance = tolerance or limits.of_quantized(model)
    else:
        count = attempt.inputs.count
        tolerance = tolerance or limits.limits(*place, request.options.sut, count)
    return Judged(
        score=score,
        keys=keys,
        tolerance=tolerance,
        reason=reason,
        agreeing=reference.agreeing,
        known=known_differences.of_model(request.options.sut, model.config.get("model_type", "")),
    )


def _digests(attempt: Attempt) -> Digests:
    request = attempt.request
    folder = None
    if request.model.file:
        folder = str(attempt.checkpoint.path)
    elif request.weights and request.spec.reads_weights:
        folder = str(request.weights.path)
    source = "user" if request.weights or request.model.file else "seeded"
    if not request.spec.reads_weights:
        source = "none"
    return Digests(
        weights=attempt.checkpoint.digest,
        weights_source=source,
        weights_folder=folder,
        inputs=attempt.inputs.digest,
        reference=attempt.reference.digest,
    )
