"""One cell, the whole way: environment, weights, inputs, reference, the tests, directory, audit, result. Reads top to bottom."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from compliance.logs import files
from harness import locks, reference, result
from harness.cell import Cell, Result, Status
from harness.errors import EnvironmentFailure
from harness.execution import environments, loadgen_run, machine, rundir
from harness.execution.environments import Environment
from harness.execution.loadgen_run import Reporter
from harness.inputs import checkpoint, dataset
from harness.output import duration
from harness.plan import Request, memory_shortage, unsupported
from harness.tree import submission
from scenarios.worker.job import PERFORMANCE, TESTS, Job, Outcome, write_json
from sut.contract import Workload
from sut.registry import SUTS


def run(request: Request, reporter: Reporter, started_monotonic_ns: int) -> Result:
    """Measure one cell. Raises HarnessError for what the user must mend first; a failing worker becomes the Result's status."""
    if reason := unsupported(request):
        return _not_measured(request, Status.UNSUPPORTED, reason)
    if shortage := memory_shortage(request, request.precision):
        return _not_measured(request, Status.SKIPPED, f"preflight: {shortage}")
    for flag, directory in (("--out", request.out), ("--cache", request.cache)):
        rundir.check_writable(flag, directory)
    setup: dict[str, float] = {}
    environment = _environment(request, request.spec.environment, reporter, setup)
    with _timed(setup, "inputs"):
        own_tokenizer = request.weights.tokenizer if request.weights else None
        inputs = dataset.prepare(
            request.model, request.size, request.samples, request.dataset, request.cache, own_tokenizer, request.seq_len
        )
    with _timed(setup, "checkpoint"):
        weights = _weights(request, reporter)
    with _timed(setup, "reference"), locks.machine(reporter.say):
        known = reference.ensure(
            request,
            weights,
            inputs,
            lambda: _reference_environment(request, environment, reporter, setup),
            reporter.watch("reference"),
            reporter.say,
        )
    cell = _cell(request, inputs.digest[:12] if request.dataset else "synthetic", weights.digest[:12], inputs.padded_to)
    if known.reason:
        reporter.say(known.reason)
    with rundir.opened(request.out, cell, request.mode) as directory, locks.machine(reporter.say):
        record = _record(request, cell, environment, inputs, weights, known, setup, started_monotonic_ns)
        return _measure(
            request, directory, record, _job(request, inputs, weights, environment, known, record), known, environment, reporter
        )


def _measure(
    request: Request,
    directory: Path,
    record: dict[str, Any],
    job: Job,
    known: reference.Reference,
    environment: Environment,
    reporter: Reporter,
) -> Result:
    (directory / "result.json").unlink(missing_ok=True)
    try:
        outcome = _run_tests(request, directory, record, job, known, environment, reporter)
        rundir.release_reserve(directory)
        if outcome.status == "ok":
            submission.write(directory, request.rules, request.submitter)
        found = result.derive(directory)
    except OSError as e:
        if e.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        rundir.release_reserve(directory)
        reason = f"the disk of {directory} is full: free some space or choose another --out; what was measured stays"
        found = Result(Cell(**record["cell"]), request.mode, request.rules.round, str(directory), Status.ERROR, reason)
    write_json(directory / "result.json", asdict(found))
    return found


def _run_tests(
    request: Request,
    directory: Path,
    record: dict[str, Any],
    job: Job,
    known: reference.Reference,
    environment: Environment,
    reporter: Reporter,
) -> Outcome:
    """All tests, each only after a good one; the record learns what each told. → the last outcome."""
    write_json(directory / "record.json", record)
    if known.path:
        shutil.copyfile(known.path, directory / "reference.npz")
    for test in (*TESTS, *_compliance_tests(request, job)):
        log_dir = directory / "raw" / test
        job = replace(job, test=test, log_dir=log_dir, audit_config=log_dir / "no-audit.config")
        if test not in TESTS:
            job = loadgen_run.compliance_job(test, job, request.rules, request.official)
        outcome = loadgen_run.run(job, environment.python, request.spec.process_env, reporter)
        if request.mode == "quick" and test == PERFORMANCE and (rate := loadgen_run.too_short(log_dir, outcome)):
            reporter.say("performance: over sooner than LoadGen's least duration; measured once more, at the rate that it showed")
            rundir.set_aside(log_dir)
            outcome = loadgen_run.run(replace(job, calibration=rate), environment.python, request.spec.process_env, reporter)
        if outcome.status != "ok":
            rundir.release_reserve(directory)
            write_json(log_dir / "outcome.json", outcome)
            break
        if test == PERFORMANCE:
            job = replace(job, calibration=outcome.calibration)
            _tell_the_rest(request, job, outcome, reporter)
        record["environment"]["versions"] = dict(outcome.versions)
        if (trace := loadgen_run.compressed_trace(log_dir)) and test == PERFORMANCE:
            record["digests"]["trace"] = trace
        write_json(directory / "record.json", record)
    return outcome


def _compliance_tests(request: Request, job: Job) -> tuple[str, ...]:
    """Those `--mode submission` runs by itself; of the others `./run.sh comply` runs them."""
    return loadgen_run.applicable(job, request.rules) if request.mode == "submission" else ()


def _tell_the_rest(request: Request, job: Job, performance: Outcome, reporter: Reporter) -> None:
    if names := _compliance_tests(request, job):
        seconds = loadgen_run.expected_seconds(names, performance)
        reporter.say(f"after the accuracy test: {', '.join(names)}, about {duration(seconds)} more")


def _not_measured(request: Request, status: Status, reason: str) -> Result:
    return Result(_cell(request), request.mode, request.rules.round, "", status, reason)


def _cell(request: Request, dataset: str = "synthetic", weights: str = "seeded", seq_len: int | None = None) -> Cell:
    return Cell(
        sut=request.sut,
        model=request.model.name,
        size=request.size.name,
        task=request.model.task,
        scenario=request.scenario,
        precision=request.precision,
        batch_size=request.batch_size,
        device=request.device,
        seq_len=(seq_len or request.seq_len) if request.model.task == "predict" else None,
        dataset=dataset,
        weights=weights,
        options=dict(request.options),
        eos=request.eos,
    )


def _weights(request: Request, reporter: Reporter) -> checkpoint.Checkpoint:
    if not request.spec.reads_weights:
        return checkpoint.NONE
    if request.weights:
        return checkpoint.of_folder(request.weights, request.model, request.cache)
    return checkpoint.ensure(request.model, request.size, request.cache, reporter.say)


def _weights_source(request: Request) -> str:
    if not request.spec.reads_weights:
        return "none"
    return "user" if request.weights else "seeded"


def _environment(request: Request, name: str, reporter: Reporter, setup: dict[str, float]) -> Environment:
    if request.python and name != "core":
        found = environments.adopt(request.python, name, request.rules.round, request.device)
        for note in found.notes:
            reporter.say(f"--python: {note}")
        return found
    with _timed(setup, f"environment {name}"):
        return environments.ensure(request.cache, name, request.device, request.rules.round, reporter.say)


def _reference_environment(request: Request, own: Environment, reporter: Reporter, setup: dict[str, float]) -> Environment:
    """--python serves the reference too where it has what that needs."""
    name = SUTS[request.spec.reference].environment
    if name == request.spec.environment:
        return own
    try:
        return _environment(request, name, reporter, setup)
    except EnvironmentFailure:
        if request.python is None:
            raise
        return _environment(replace(request, python=None), name, reporter, setup)


def _job(
    request: Request,
    inputs: dataset.Inputs,
    weights: checkpoint.Checkpoint,
    environment: Environment,
    known: reference.Reference,
    record: dict[str, Any],
) -> Job:
    """Of the tests to come; test, log_dir, audit_config and calibration are each test's own."""
    workload = Workload(
        model=request.model.name,
        task=request.model.task,
        config=reference.workload_config(request, inputs),
        checkpoint=weights.path,
        precision=request.precision,
        batch_size=request.batch_size,
        device=request.device,
        backend=request.spec.backend,
        execution=request.spec.execution,
        options=dict(request.options),
    )
    return Job(
        sut=request.sut,
        family=request.model.family,
        workload=workload,
        scenario=request.scenario,
        test="",
        benchmark=request.benchmark,
        answer=request.model.answer_keys,
        inputs=inputs.path,
        synthetic=inputs.synthetic,
        warmup_rows=inputs.warmup_rows,
        limits=request.limits(inputs.count, inputs.uneven or bool(request.end_tokens)),
        log_dir=Path(),
        audit_config=Path(),
        reference=known.path,
        logits_rows=reference.logits_rows(request, inputs),
        made_with={
            "environment": environment.lock_sha256,
            "source": record["git"]["worker_source_sha256"],
            "variables": json.dumps(record["environment"]["variables"]),
            "inputs": files.sha256(inputs.path),
            "synthetic": files.sha256(inputs.synthetic),
        },
    )


def _record(
    request: Request,
    cell: Cell,
    environment: Environment,
    inputs: dataset.Inputs,
    weights: checkpoint.Checkpoint,
    known: reference.Reference,
    setup: dict[str, float],
    started_monotonic_ns: int,
) -> dict[str, Any]:
    """Our own record: what a reader a year from now would ask."""
    judged = {
        "score": request.model.score,
        "keys": list(request.model.answer_keys),
        "tolerance": dict(request.model.tolerance[request.precision]),
    }
    return {
        "schema": "record-1",
        "cell": asdict(cell),
        "mode": request.mode,
        "round": request.rules.round,
        "command": request.command,
        "working_directory": str(Path.cwd()),
        "submitter": request.submitter,
        "benchmark": {"name": request.benchmark, "official": request.official},
        "family": request.model.family,
        "execution": request.spec.execution,
        "loadgen": request.rules.wheel,
        "qsl": {
            "samples": inputs.count,
            "performance_sample_count": inputs.count,
            "shortest": inputs.lengths[0],
            "longest": inputs.lengths[1],
            "padded_to": inputs.padded_to,
            "synthetic": request.dataset is None,
            "dataset": request.dataset and str(request.dataset.absolute()),
        },
        "accuracy": judged | ({"reason": known.reason} if known.reason else {}),
        "digests": {
            "weights": weights.digest,
            "weights_source": _weights_source(request),
            "weights_folder": str(request.weights.path) if request.weights and request.spec.reads_weights else None,
            "inputs": inputs.digest,
            "reference": known.digest,
        },
        "new_tokens_per_sample": inputs.new_tokens_per_sample,
        "end_tokens": list(request.end_tokens),
        "parameters": request.size.parameters,
        "machine": machine.describe(),
        "git": machine.git(),
        "process_id": os.getpid(),
        "environment": {
            "name": environment.name,
            "python": str(environment.python),
            "lock_sha256": environment.lock_sha256,
            "versions": {},
            "variables": machine.variables(),
        },
        "notes": [*request.reasons, *inputs.notes, *environment.notes],
        "setup_seconds": dict(setup),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "started_monotonic_ns": started_monotonic_ns,
    }


@contextmanager
def _timed(spent: dict[str, float], name: str) -> Iterator[None]:
    """Seconds of the block, less what is timed within it under another name."""
    start, before = time.monotonic(), sum(spent.values())
    yield
    spent[name] = round(time.monotonic() - start - (sum(spent.values()) - before), 3)
