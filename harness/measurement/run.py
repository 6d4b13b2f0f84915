"""The measurement of one cell, from top to bottom: environment, inputs, weights, reference, tests,
directory, audit, result.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from compliance import audit as audits
from compliance.audit_tests import compliance_tests
from formats.cell import Cell
from formats.job import PERFORMANCE, TESTS, Job
from formats.outcome import WorkerOutcome
from formats.result import Result, Status
from formats.writing import write_json
from harness import locks, result
from harness.errors import EnvironmentFailure
from harness.execution import environments, kernels, loadgen_run, rundir
from harness.execution.environments import Environment
from harness.execution.loadgen_run import Reporter
from harness.execution.process import Worker
from harness.inputs import checkpoint, dataset, used_files
from harness.inputs.tokenizer import Tokenizer, of_bytes
from harness.measurement import earlier_repeat, reference, tests, trained_file
from harness.measurement import record as records
from harness.measurement.attempt import Attempt, make_job
from harness.request import estimate, replicas
from harness.request.plan import memory_shortage, unsupported
from harness.request.request import Request
from harness.submission import inference, official
from harness.terminal import duration
from results import figures
from sut.registry import spec_of

NO_LIMIT: AbstractContextManager[None] = nullcontext()


def run(
    request: Request,
    reporter: Reporter,
    started_monotonic_ns: int,
    while_measuring: AbstractContextManager[None] = NO_LIMIT,
) -> Result:
    """Measure one cell. Raises HarnessError for a fault that the user must fix first. A failing
    worker becomes the Result's status.

    Args:
        while_measuring: is entered when environment, inputs, weights and reference are there.
    """
    if reason := unsupported(request):
        return not_measured(request, Status.UNSUPPORTED, reason)
    if shortage := memory_shortage(request, request.precision):
        return not_measured(request, Status.SKIPPED, f"preflight: {shortage}")
    if shortage := estimate.disk_shortage(request):
        return not_measured(request, Status.SKIPPED, f"preflight: {shortage}")
    for flag, directory in (("--out", request.options.out), ("--cache", request.options.cache)):
        rundir.check_writable(flag, directory)
    setup: dict[str, float] = {}
    # A user's file may be refused, so it is read before anything is waited for or installed. The
    # labels of a .keras file are known only when its framework has loaded it.
    inputs = None
    if not (request.model.file and request.trains):
        with _timed(setup, "inputs"):
            inputs = inputs_of(request)
    with ExitStack() as stack:
        with _timed(setup, "waiting"):  # only the wait for the lock, not the measurement
            stack.enter_context(_machine(request, reporter))
        attempt = _prepared(request, inputs, reporter, setup, started_monotonic_ns)
        options = attempt.request.options
        with (
            while_measuring,
            rundir.opened(options.out, attempt.cell, options.mode, options.sweep) as directory,
        ):
            return _measure(attempt, directory, reporter)


def _machine(request: Request, reporter: Reporter) -> AbstractContextManager[None]:
    """Lock this machine for a cell."""
    return locks.machine(reporter.warn, request.options.command, estimate.of(request).all_seconds)


def _prepared(
    request: Request,
    inputs: dataset.Inputs | None,
    reporter: Reporter,
    setup: dict[str, float],
    started_monotonic_ns: int,
) -> Attempt:
    """Make all that the tests of a cell need, unless it exists. The reference of a sweep's cells is
    made with the first of them.
    """
    environment = environment_of(request, request.spec.environment, reporter, setup)
    if request.launch:
        with _timed(setup, "cluster"):
            replicas.prepare(request.options, reporter.say)
    with _timed(setup, "checkpoint"):
        weights = checkpoint_of(request, reporter)
    if inputs is None:
        with _timed(setup, "description"):
            request = trained_file.described(request, weights, environment)
        with _timed(setup, "inputs"):
            inputs = inputs_of(request)
    with _timed(setup, "reference"):
        reference_answers = reference.ensure(
            request,
            weights,
            inputs,
            lambda name: reference_environment(request, name, environment, reporter, setup),
            reporter.watch("reference"),
            reporter.say,
        )
        setup |= {f"reference {name}": s for name, s in reference_answers.seconds.items()}
    cell = request.cell(
        inputs.digest[:12] if request.options.dataset else None,
        weights.digest[:12],
        inputs.description.seq_len,
    )
    if reference_answers.reason:
        reporter.say(reference_answers.reason)
    attempt = Attempt(
        request=request,
        cell=cell,
        environment=environment,
        inputs=inputs,
        checkpoint=weights,
        reference=reference_answers,
        setup_seconds=setup,
        started_monotonic_ns=started_monotonic_ns,
    )
    return replace(attempt, known=earlier_repeat.find(attempt))


def inputs_of(request: Request) -> dataset.Inputs:
    """Make the inputs of a cell, unless they exist. Raises HarnessError."""
    inputs = dataset.prepare(
        request.model,
        request.size,
        samples=request.samples,
        dataset=request.options.dataset,
        cache=request.options.cache,
        own=request.weights.tokenizer if request.weights else None,
        seq_len=request.options.seq_len,
        batch_size=request.batch_size,
        trains=request.trains,
        standard=request.inputs,
        options=request.prompt_options,
        given=request.given,
    )
    used_files.check(request.used)
    return inputs


def _measure(attempt: Attempt, directory: Path, reporter: Reporter) -> Result:
    request = attempt.request
    try:
        score, audit = None, None
        outcome, record = _run_tests(attempt, directory, reporter)
        rundir.release_reserve(directory)
        if outcome.status == "ok":
            start_s = time.monotonic()
            if not request.trains:
                score = inference.write(directory, request.rules, request.options.submitter)
            request.architecture.show(directory, attempt.inputs.path, _tokenizer(request))
            audit = audits.audit(directory, record.round, with_result=False)
            write_json(directory / "record.json", record.ended(time.monotonic() - start_s))
        cell_result = result.derive(directory, score, audit)
    except OSError as e:
        if e.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        rundir.release_reserve(directory)
        reason = (
            f"the disk of {directory} is full: free some space or choose another --out; what was"
            " measured stays"
        )
        cell_result = _without_figures(request, attempt.cell, Status.ERROR, reason, str(directory))
    write_json(directory / "result.json", asdict(cell_result))
    return cell_result


def _tokenizer(request: Request) -> Tokenizer | None:
    """Return the tokenizer that turns answers into words: that of the user's weights, else the one
    of bytes for a user's prompts.

    None if the ids have no meaning.
    """
    user = request.weights.tokenizer if request.weights else None
    return user or (of_bytes(closing=False) if request.options.dataset else None)


def _run_tests(
    attempt: Attempt, directory: Path, reporter: Reporter
) -> tuple[WorkerOutcome, records.Record]:
    """Run all tests until one fails, and add each outcome to the record. Returns (the last outcome,
    the record).
    """
    request, record = attempt.request, records.make(attempt)
    write_json(directory / "record.json", record)
    if attempt.reference.path:
        shutil.copyfile(attempt.reference.path, directory / "reference.npz")
    if request.official_run:
        official.write_files(directory, request.official_run.files)
    performance = make_job(attempt, directory, PERFORMANCE, None)
    compliance = _compliance_tests(request, performance)

    def after_performance(outcome: WorkerOutcome) -> None:
        if figures.compiles(outcome) and not outcome.cache_hits:
            seconds = figures.first_calls_seconds(outcome)
            kernels.note_first_seconds(attempt.kernels, attempt.cell, seconds)
        if compliance:
            more = duration(loadgen_run.expected_seconds(compliance, outcome))
            names = ", ".join(compliance)
            reporter.say(f"after the accuracy test: {names}, about {more} more")

    process_env = {
        **kernels.variables(attempt.kernels),
        **request.tuned.variables,
        **request.spec.process_env,
    }
    with Worker(attempt.environment.python, process_env) as worker:
        return tests.run(
            (*TESTS, *compliance),
            job_of=partial(make_job, attempt, directory),
            directory=directory,
            record=record,
            worker=worker,
            reporter=reporter,
            after_performance=after_performance,
            fault=partial(used_files.changed, request.linked),
        )


def _compliance_tests(request: Request, job: Job) -> tuple[str, ...]:
    """The compliance tests that `--mode submission` runs. In other modes `./run.sh compliance` runs
    them.
    """
    return (
        compliance_tests.applicable(job, request.rules)
        if request.options.mode == "submission"
        else ()
    )


def not_measured(request: Request, status: Status, reason: str) -> Result:
    """The result of a cell that was not run."""
    return _without_figures(request, request.cell(), status, reason)


def _without_figures(
    request: Request, cell: Cell, status: Status, reason: str, directory: str = ""
) -> Result:
    return Result(
        cell=cell,
        sweep=request.options.sweep,
        mode=request.options.mode,
        round=request.rules.round,
        directory=directory,
        status=status,
        reason=reason,
    )


def checkpoint_of(request: Request, reporter: Reporter) -> checkpoint.Checkpoint:
    """Make the weights of a cell, unless they exist. Raises HarnessError."""
    if not request.spec.reads_weights:
        return checkpoint.NONE
    cache = request.options.cache
    if request.model.file:
        weights = checkpoint.of_file(request.model, cache)
    elif request.weights:
        weights = checkpoint.of_folder(request.weights, request.model, cache)
    else:
        weights = checkpoint.ensure(request.model, request.size, cache, reporter.say)
    used_files.check(request.used)
    return weights


def environment_of(
    request: Request, name: str, reporter: Reporter, setup: dict[str, float]
) -> Environment:
    """Make the environment of this name, unless it exists, or adopt the interpreter of --python.
    The seconds go into `setup`. Raises EnvironmentFailure.
    """
    if request.options.python and name != "core":
        environment = environments.adopt(
            request.options.python, name, request.rules.round, request.device, request.options.cache
        )
        for note in environment.notes:
            reporter.say(f"--python: {note}")
        return environment
    with _timed(setup, f"environment {name}"):
        return environments.ensure(
            request.options.cache, name, request.device, request.rules.round, reporter.say
        )


def reference_environment(
    request: Request,
    reference: str,
    environment: Environment,
    reporter: Reporter,
    setup: dict[str, float],
) -> Environment:
    """Return the environment of a reference, or `environment`, which is that of the SUT, if it is
    the same. It is the interpreter of --python if that has the needed packages.
    """
    name = spec_of(reference).environment
    if name == request.spec.environment:
        return environment
    try:
        return environment_of(request, name, reporter, setup)
    except EnvironmentFailure:
        if request.options.python is None:
            raise
        return environment_of(
            replace(request, options=replace(request.options, python=None)), name, reporter, setup
        )


@contextmanager
def _timed(durations: dict[str, float], name: str) -> Iterator[None]:
    """Add the seconds of the block to `durations`, without those timed within it under another
    name.
    """
    start, before = time.monotonic(), sum(durations.values())
    yield
    durations[name] = round(time.monotonic() - start - (sum(durations.values()) - before), 3)
