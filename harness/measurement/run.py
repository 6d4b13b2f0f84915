"""The measurement of one cell, from top to bottom: environment, inputs, weights, reference, tests,
directory, audit, result.
"""

from __future__ import annotations

import errno
import shutil
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from compliance import audit as audits
from compliance.logs import files
from compliance.scoring import official
from formats.job import PERFORMANCE, TESTS
from formats.outcome import WorkerOutcome
from formats.result import Result, Status
from formats.writing import write_json
from harness import locks, result
from harness.execution import kernels, loadgen_run, rundir
from harness.execution.loadgen_run import Reporter
from harness.execution.pins import Unresolvable
from harness.execution.zygotes import Zygotes
from harness.inputs import dataset, used_files
from harness.inputs.tokenizer import of_bytes
from harness.measurement import earlier_repeat, preparation, reference, tests
from harness.measurement import record as records
from harness.measurement.attempt import Attempt, make_job
from harness.measurement.preparation import Seconds, inputs_of, reference_environment, timed
from harness.request import estimate
from harness.request.plan import memory_shortage, unsupported
from harness.request.request import Request
from harness.submission import inference
from harness.terminal import duration
from results import figures

NO_LIMIT: AbstractContextManager[None] = nullcontext()


def run(
    request: Request,
    reporter: Reporter,
    started_monotonic_ns: int,
    while_measuring: AbstractContextManager[None] = NO_LIMIT,
    zygotes: Zygotes | None = None,
) -> Result:
    """Measure one cell. Raises HarnessError for a fault that the user must fix first. A failing
    worker becomes the Result's status.

    Args:
        while_measuring: is entered when environment, inputs, weights and reference are there.
        zygotes: of the sweep, to fork the worker; None: it gets a process of its own.
    """
    if reason := unsupported(request):
        return not_measured(request, Status.UNSUPPORTED, reason)
    if shortage := memory_shortage(request, request.precision):
        return not_measured(request, Status.SKIPPED, f"preflight: {shortage}")
    if shortage := estimate.disk_shortage(request):
        return not_measured(request, Status.SKIPPED, f"preflight: {shortage}")
    for flag, directory in (("--out", request.options.out), ("--cache", request.options.cache)):
        rundir.check_writable(flag, directory)
    setup: Seconds = {}
    # A user's file may be refused, so it is read before anything is waited for or installed.
    inputs = None
    if not (request.model.file and request.trains):
        with timed(setup, "inputs"):
            inputs = inputs_of(request)
    with ExitStack() as stack:
        with timed(setup, "waiting"):  # only the wait for the lock, not the measurement
            seconds = estimate.of(request).all_seconds
            stack.enter_context(locks.machine(reporter.warn, request.options.command, seconds))
        try:
            attempt = _prepared(request, inputs, reporter, setup, started_monotonic_ns)
        except Unresolvable as e:
            return not_measured(request, Status.UNSUPPORTED, str(e))
        attempt = replace(attempt, zygotes=zygotes)
        options = attempt.request.options
        with (
            while_measuring,
            rundir.opened(options.out, attempt.cell, options.mode, options.sweep) as directory,
        ):
            return _measure(attempt, directory, reporter)


def _prepared(
    request: Request,
    inputs: dataset.Inputs | None,
    reporter: Reporter,
    setup: Seconds,
    started_monotonic_ns: int,
) -> Attempt:
    """Make all that the tests of a cell need, unless it exists. The reference of a sweep's cells is
    made with the first of them.
    """
    attempt = preparation.prepare(request, reporter, setup, inputs, started_monotonic_ns)
    with timed(setup, "reference"):
        answers = reference.ensure(
            attempt,
            lambda name: reference_environment(request, name, attempt.environment, reporter, setup),
            reporter,
        )
        setup |= {f"reference {name}": s for name, s in answers.seconds.items()}
    if answers.reason:
        reporter.say(answers.reason)
    attempt = replace(attempt, reference=answers)
    return replace(attempt, known=earlier_repeat.find(attempt))


def _measure(attempt: Attempt, directory: Path, reporter: Reporter) -> Result:
    request = attempt.request
    try:
        tests = _tests(attempt, directory)
        outcome, record = _run_tests(attempt, tests, directory, reporter)
        rundir.release_reserve(directory)
        if outcome.status == "ok":
            cell_result = _audited(attempt, record, tests, directory)
        else:
            cell_result = result.derive(directory, record)
    except OSError as e:
        if e.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        rundir.release_reserve(directory)
        reason = (
            f"the disk of {directory} is full: free some space or choose another --out; what was"
            " measured stays"
        )
        cell_result = replace(
            not_measured(request, Status.ERROR, reason), cell=attempt.cell, directory=str(directory)
        )
    write_json(directory / "result.json", asdict(cell_result))
    return cell_result


def _tests(attempt: Attempt, directory: Path) -> tuple[str, ...]:
    """The tests of the cell. In other modes than `submission`, `./run.sh compliance` runs the
    compliance tests.
    """
    if attempt.request.options.mode != "submission":
        return TESTS
    from compliance.audit_tests import compliance_tests  # imports scipy, which no plan needs

    performance = make_job(attempt, directory / "raw" / PERFORMANCE, PERFORMANCE, None)
    return (*TESTS, *compliance_tests.applicable(performance, attempt.request.rules))


def _run_tests(
    attempt: Attempt, names: tuple[str, ...], directory: Path, reporter: Reporter
) -> tuple[WorkerOutcome, records.Record]:
    """Run all tests until one fails, and add each outcome to the record. Returns (the last outcome,
    the record).
    """
    request = attempt.request
    record = records.make(attempt)
    write_json(directory / "record.json", record)
    if attempt.reference.path:
        shutil.copyfile(attempt.reference.path, directory / "reference.npz")
    if request.official_run:
        folder = directory / official.FOLDER
        folder.mkdir(exist_ok=True)
        for name, content in request.official_run.files.items():
            (folder / name).write_bytes(content)
    compliance = names[len(TESTS) :]

    def after_performance(outcome: WorkerOutcome) -> None:
        if figures.compiles(outcome) and not outcome.cache_hits:
            seconds = figures.first_calls_seconds(outcome)
            kernels.note_first_seconds(attempt.kernels, attempt.cell, seconds)
        if compliance:
            more = duration(loadgen_run.expected_seconds(compliance, outcome))
            words = ", ".join(compliance)
            reporter.say(f"after the accuracy test: {words}, about {more} more")

    with preparation.worker(attempt) as worker:
        return tests.run(
            names,
            job_of=lambda test, known: make_job(attempt, directory / "raw" / test, test, known),
            directory=directory,
            record=record,
            worker=worker,
            reporter=reporter,
            after_performance=after_performance,
            fault=partial(used_files.changed, request.linked),
        )


def _audited(
    attempt: Attempt, record: records.Record, names: tuple[str, ...], directory: Path
) -> Result:
    """The result of a cell whose tests all ended well. Writes its submission and audits it."""
    request = attempt.request
    score = None
    start_s = time.monotonic()
    if not request.trains:
        submitter = request.options.submitter
        score = inference.write(directory, record, request.rules, submitter, names)
    # The ids of other models have no meaning.
    user = request.weights.tokenizer if request.weights else None
    tokenizer = user or (of_bytes(closing=False) if request.options.dataset else None)
    request.architecture.show(directory, record, attempt.inputs.path, tokenizer)
    with files.confined(directory.absolute()):
        audit = audits.audit(directory, record.round, with_result=False)
        record = record.ended(time.monotonic() - start_s)
        write_json(directory / "record.json", record)
        return result.derive(directory, record, score, audit)


def not_measured(request: Request, status: Status, reason: str) -> Result:
    """The result of a cell that was not run."""
    return Result(
        cell=request.cell(),
        sweep=request.options.sweep,
        mode=request.options.mode,
        round=request.rules.round,
        directory="",
        status=status,
        reason=reason,
    )
