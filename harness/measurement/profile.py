"""Profiles a step of each SUT, and returns the operations that the step needs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from formats import reading
from formats.cell import cell_words
from formats.job import PERFORMANCE, PROFILE, START, Job
from formats.outcome import WorkerOutcome
from formats.profile import CLASSES, ProfiledSut, Start, StepOperations
from formats.result import Status
from harness.execution import kernels, process
from harness.execution.environments import Environment
from harness.execution.loadgen_run import Reporter
from harness.measurement import reference, run, trained_file
from harness.measurement.attempt import Attempt, make_job
from harness.measurement.reference import Reference
from harness.request.plan import memory_shortage, unsupported
from harness.request.request import Request
from results import figures
from results.figure import with_facts
from sut.registry import REFERENCE, profiler_of, recorded_names
from sut.variables import keeping_kernels

_FILE = "profile.json"
_RAW = "raw"
_EAGER = "eager"
_OF_SUT = ("stream", "tuned")  # fields of a cell in which the SUTs of a profile may differ
_NOT_COUNTED = "the operations are counted only on a reference of PyTorch, and there is none"


def title_of(request: Request) -> str:
    """Return the work in a few words, without the SUT and its switches."""
    cell = request.cell()
    model = with_facts(f"{cell.model} {cell.size}", request.size.facts)
    parts = (model, cell.task, cell.scenario, *cell_words(cell, without=_OF_SUT))
    return " ".join(parts)


def label_of(request: Request) -> str:
    """Return the SUT with its options and switches, in words."""
    parts = [request.options.sut]
    if request.stream:
        parts.append("streamed")
    parts += [f"{name}={value}" for name, value in sorted(request.sut_options.items())]
    if request.tuned.switches:
        parts.append(f"tuned={'+'.join(request.tuned.names)}")
    return " ".join(parts)


def profile(
    request: Request, directory: Path, reporter: Reporter, *, starts: bool = False
) -> ProfiledSut:
    """Profile a step of one SUT. The files of its worker stay in `directory`.

    Args:
        starts: also measure its start with an empty cache of compiled programs, and with the cache
            that this left.

    Raises HarnessError for a fault that the user must fix first. A failing worker becomes the
    status.
    """
    refused = _refused(request)
    if refused:
        return refused
    prepared = _Prepared.of(request, reporter)
    folder = _new_folder(directory / _RAW, request.options.sut)
    found = _named(request, "ok", "")
    if starts:
        found = _started(found, request, prepared, folder, reporter)
    job = prepared.job(folder)
    outcome = _run(job, request, prepared, prepared.kernels, reporter)
    found = replace(found, status=outcome.status, reason=outcome.reason)
    if outcome.status != "ok":
        return found
    step = reading.from_file(job.log_dir / _FILE, reading.step_profile)
    names = recorded_names(request.spec.packages, outcome.versions)
    versions = {package: outcome.versions[name] for package, name in names.items()}
    return replace(found, step=step, versions=versions)


def _started(
    found: ProfiledSut, request: Request, prepared: _Prepared, folder: Path, reporter: Reporter
) -> ProfiledSut:
    """Add the starts of the SUT. They share a cache of compiled programs that is empty before, and
    is deleted at the end. A failing worker ends them: its profile fails, too, and says why.
    """
    cache = folder / "compiled"
    states = ("cold",) if request.spec.execution == _EAGER else ("cold", "warm")
    starts: list[Start] = []
    for state in states:
        job = prepared.job(_new_folder(folder, state))
        job = replace(job, procedure=START)
        outcome = _run(job, request, prepared, keeping_kernels(cache), reporter)
        if outcome.status != "ok":
            break
        starts.append(_start(outcome))
    shutil.rmtree(cache, ignore_errors=True)
    return replace(found, starts=tuple(starts))


def _start(outcome: WorkerOutcome) -> Start:
    return Start(
        cached=outcome.cache_hits,
        compiled=outcome.cache_misses,
        import_seconds=outcome.import_ns / 1e9,
        load_seconds=outcome.load_ns / 1e9,
        first_call_seconds=outcome.warmup[0]["first_ns"] / 1e9,
        compile_seconds=figures.first_calls_seconds(outcome),
    )


def _run(
    job: Job,
    request: Request,
    prepared: _Prepared,
    kept_kernels: Mapping[str, str],
    reporter: Reporter,
) -> WorkerOutcome:
    """Run a worker of a SUT. `kept_kernels`: the variables that name the cache of its programs."""
    variables = {**kept_kernels, **request.tuned.variables, **request.spec.process_env}
    watch = reporter.watch(label_of(request))
    return process.run(job, prepared.environment.python, variables, watch)


def operations(requests: Sequence[Request], reporter: Reporter) -> StepOperations | str:
    """Return the operations of a step, or why they are not known. The reference counts them for a
    sample (`formats.work`).

    `requests`: of all SUTs, which do the same work.
    """
    for request in requests:
        if REFERENCE in request.references and not unsupported(request):
            return _of_step(request, reporter)
    return _NOT_COUNTED


def _of_step(request: Request, reporter: Reporter) -> StepOperations | str:
    """Return the operations of a batch of average samples without padding."""
    prepared = _Prepared.of(request, reporter)
    attempt = prepared.attempt
    counted = reference.work_of(
        attempt.request,
        attempt.checkpoint,
        attempt.inputs,
        lambda name: run.reference_environment(request, name, prepared.environment, reporter, {}),
        reporter.watch(REFERENCE),
        reporter.say,
    )
    if counted.work is None:
        return counted.reason or _NOT_COUNTED
    sample = counted.work.of_sample(attempt.inputs.description.new_tokens_per_sample)
    flops = dict.fromkeys(CLASSES, 0.0)
    for table in (sample.flops, sample.written):
        for kind, number in table.items():
            flops[kind] += number * request.batch_size
    return StepOperations(flops=flops)


def _refused(request: Request) -> ProfiledSut | None:
    """Return the result of a SUT that can't be profiled here. None: it can."""
    obstacle = unsupported(request)
    if not obstacle and profiler_of(request.options.sut) is None:
        obstacle = f"nothing is written for the profiler of the framework of {request.options.sut}"
    if obstacle:
        return _named(request, Status.UNSUPPORTED, obstacle)
    shortage = memory_shortage(request, request.precision)
    return _named(request, Status.SKIPPED, shortage) if shortage else None


def _named(request: Request, status: str, reason: str) -> ProfiledSut:
    return ProfiledSut(
        sut=request.options.sut,
        label=label_of(request),
        status=status,
        reason=reason,
    )


def _new_folder(parent: Path, name: str) -> Path:
    """Make a folder with this name, which has a number if there is one already."""
    folder = parent / name
    number = 1
    while folder.exists():
        number += 1
        folder = parent / f"{name}-{number}"
    folder.mkdir(parents=True)
    return folder


@dataclass(frozen=True)
class _Prepared:
    """A request with everything that its worker needs."""

    attempt: Attempt

    @staticmethod
    def of(request: Request, reporter: Reporter) -> _Prepared:
        """Make environment, weights and inputs, unless they exist."""
        environment = run.environment_of(request, request.spec.environment, reporter, {})
        weights = run.checkpoint_of(request, reporter)
        if request.model.file and request.trains:
            request = trained_file.described(request, weights, environment)
        inputs = run.inputs_of(request)
        attempt = Attempt(
            request=request,
            cell=request.cell(),
            environment=environment,
            inputs=inputs,
            checkpoint=weights,
            reference=Reference(None),
            setup_seconds={},
            started_monotonic_ns=0,
        )
        return _Prepared(attempt)

    @property
    def environment(self) -> Environment:
        """The SUT's environment."""
        return self.attempt.environment

    @property
    def kernels(self) -> dict[str, str]:
        """The variables by which the worker finds programs that are compiled already."""
        return kernels.variables(self.attempt.kernels)

    def job(self, log_dir: Path) -> Job:
        """Return the job that profiles a step. Its files go into `log_dir`."""
        job = make_job(self.attempt, log_dir, PERFORMANCE, None)
        return replace(job, test=PROFILE, procedure=PROFILE, log_dir=log_dir)
