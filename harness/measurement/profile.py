"""Profiles a step of each SUT, and returns the operations that the step needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from formats import reading
from formats.cell import sut_words, title_words
from formats.job import PROFILE
from formats.profile import CLASSES, ProfiledSut, StepOperations, StepProfile
from formats.result import Status
from harness.execution.loadgen_run import Reporter
from harness.measurement import preparation, reference
from harness.measurement.attempt import make_job
from harness.request.plan import memory_shortage, unsupported
from harness.request.request import Request
from sut.registry import REFERENCE, profiler_of, recorded_names

_FILE = "profile.json"
_RAW = "raw"
_OF_SUT = ("stream", "tuned")  # fields of a cell in which the SUTs of a profile may differ
_NOT_COUNTED = "the operations are counted only on a reference of PyTorch, and there is none"


def title_of(request: Request) -> str:
    """Return the work in a few words, without the SUT and its switches."""
    return " ".join(title_words(request.cell(), request.size.facts, without=_OF_SUT))


def label_of(request: Request) -> str:
    """Return the SUT with its options and switches, in words."""
    return sut_words(request.cell())


def profile(request: Request, directory: Path, reporter: Reporter) -> ProfiledSut:
    """Profile a step of one SUT. The files of its worker stay in `directory`.

    Raises HarnessError for a fault that the user must fix first. A failing worker becomes the
    status.
    """
    refused = _refused(request)
    if refused:
        return refused
    prepared = preparation.prepare(request, reporter, {})
    folder = _new_folder(directory / _RAW, request.options.sut)
    watch = reporter.watch(label_of(request))
    outcome = preparation.launch(prepared, make_job(prepared, folder, PROFILE, None), watch)
    found = _named(request, outcome.status, outcome.reason)
    if outcome.status != "ok":
        return found
    step = reading.from_file(folder / _FILE, StepProfile)
    names = recorded_names(request.spec.packages, outcome.versions)
    versions = {package: outcome.versions[name] for package, name in names.items()}
    return replace(found, step=step, versions=versions)


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
    attempt = preparation.prepare(request, reporter, {})
    environment = attempt.environment
    counted = reference.work_of(
        attempt,
        lambda name: preparation.reference_environment(request, name, environment, reporter, {}),
        reporter,
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
