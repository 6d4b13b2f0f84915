"""The references: a library's own answers to the same weights and inputs. A separate worker
computes each, and the cache keeps it by content.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from compliance.logs import files
from formats.job import COUNT, REFERENCE, Job, Limits
from formats.outcome import WorkerOutcome
from formats.work import Counted
from formats.writing import json_digest
from harness.errors import EnvironmentFailure
from harness.execution import process, wheels
from harness.execution.environments import ROOT, lock_files
from harness.execution.loadgen_run import Reporter
from harness.inputs import used_files
from harness.locks import held
from harness.measurement import counted_work, engines, judges
from harness.measurement.attempt import Attempt, EnvironmentOf, Reference
from harness.request.estimate import REFERENCE_BATCH
from harness.request.plan import memory_shortage
from harness.request.request import Request
from results.summary import times
from scenarios.worker.reference import FILE, PARTS, TOP
from sut.devices import DEVICES, HOST
from sut.registry import FIT, framework_of, missing, module_of, spec_of

_FORMAT = 4
NONE = "no reference: "
"""The beginning of the sentence that says why there is no reference."""
# Nothing is timed here, so idle OpenMP threads may sleep. Spinning threads made torch 60 times
# slower next to another process on two cores.
_PATIENT = {"OMP_WAIT_POLICY": "PASSIVE"}


def _source_digest(request: Request, reference: str) -> str:
    """sha256 of the source files that compute the reference: the call of the library, its helpers,
    and the worker's code.
    """
    names = ("fit.py",) if request.trains else ("reference.py", "queries/teacher_forcing.py")
    worker = [ROOT / "scenarios" / "worker" / name for name in names]
    module = module_of(reference, request.model.architecture)
    total = hashlib.sha256()
    for path in (
        ROOT / f"{module.replace('.', '/')}.py",
        ROOT / "sut" / "adapters.py",
        *sorted((ROOT / "sut" / "reference").glob("*.py")),
        *worker,
    ):
        total.update(path.read_bytes())
    return total.hexdigest()


def ensure(attempt: Attempt, environment: EnvironmentOf, reporter: Reporter) -> Reference:
    """Reuse or compute the references. A failure is not an error of the cell: its accuracy is not
    judged and it is not ranked. If one of several fails, the others judge. If several differ, none
    judges.

    If the answers do not fit into the memory of an accelerator, the host computes them. A training
    is excepted, because it may take hours there.
    """
    request = attempt.request
    if other := engines.not_judged(request):
        return Reference(None, reason=other)
    made = {
        name: _Maker(attempt, name, environment, reporter).made() for name in request.references
    }
    found = {name: each.path for name, each in made.items() if each.path}
    reasons = {framework_of(name): each.reason for name, each in made.items() if each.reason}
    if not found:
        texts = [f"{framework}: {reason}" for framework, reason in reasons.items()]
        why = "; ".join(texts if len(texts) > 1 else reasons.values())
        return Reference(None, reason=NONE + why)
    name, path = next(iter(found.items()))
    notes = (*made[name].notes, *judges.notes(reasons, found))
    steps = dict.fromkeys(step for each in made.values() for step in each.seconds)
    seconds = {step: sum(each.seconds.get(step, 0.0) for each in made.values()) for step in steps}
    chosen = replace(made[name], digest=files.sha256(path), notes=notes, seconds=seconds)
    if request.architecture.limits is None:
        return chosen
    limits, reason = judges.limits(attempt, environment, found)
    agreeing = tuple(map(framework_of, found)) if len(found) > 1 else ()
    if reason:
        return Reference(None, reason=reason)
    return replace(chosen, limits=limits, agreeing=agreeing)


def work_of(attempt: Attempt, environment: EnvironmentOf, reporter: Reporter) -> Counted:
    """Return the work of a sample, and count it if it is not known. No answers are computed."""
    request = attempt.request
    name = request.references[0]
    reason = missing(name, request.model.architecture, request.task) or shortage(request)
    if reason:
        return Counted(work=None, reason=reason)
    environment(name)
    maker = _Maker(attempt, name, environment, reporter)
    with maker.locked():
        return maker.count()


@dataclass(frozen=True)
class _Maker:
    """Runs the workers of the reference `name`. The other arguments are those of `ensure`."""

    attempt: Attempt
    name: str
    environment: EnvironmentOf
    reporter: Reporter

    @property
    def request(self) -> Request:
        """The request whose answers are judged."""
        return self.attempt.request

    @cached_property
    def folder(self) -> Path:
        """The folder of the reference. Its name has a digest of everything that may change the
        answers, including the installed packages and the source files, so that no wrong reference
        is reused.
        """
        request = self.request
        name = spec_of(self.name).environment
        locks = [path.read_text(encoding="utf-8") for path in lock_files(name, request.device)]
        attempt = self.attempt
        parts = [
            _FORMAT,
            self.name,
            request.model.name,
            attempt.checkpoint.digest,
            attempt.inputs.digest,
            request.device,
            attempt.logits_rows,
            TOP,
            self.environment(self.name).lock_sha256 if request.options.python else locks,
            _source_digest(request, self.name),
            request.end_tokens,
            *([request.batch_size, request.optimizer, request.adamw] if request.trains else []),
            *([request.lora_config] if request.lora_config else []),
            # The checkpoint's digest has only the user's part of this configuration.
            *([request.size.config] if request.weights or request.model.file else []),
            *([request.model.file.code_digest] if request.model.file else []),
        ]
        key = json_digest(parts, 16)
        return request.options.cache / "references" / f"{request.benchmark}-{key}"

    @property
    def path(self) -> Path:
        """The file with the answers."""
        return self.folder / FILE

    @property
    def scratch(self) -> Path:
        """The folder of a worker's files until it has ended."""
        return self.folder.with_name(self.folder.name + ".partial")

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder for this process."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        lock = self.folder.with_name(self.folder.name + ".lock")
        text = "waiting for another process that makes this reference"
        return held(lock, lambda: self.reporter.say(text))

    def made(self) -> Reference:
        """Return the reference, or why there is none."""
        request = self.request
        if lacks := missing(self.name, request.model.architecture, request.task):
            return Reference(None, reason=lacks)
        try:
            with self.locked():
                reason, seconds = self.answer()
                if reason:
                    return Reference(None, reason=reason)
                counted = self.count()
                path = engines.with_texts(request, self.path)
        except EnvironmentFailure as e:
            if wheels.bundle(ROOT) is None:
                raise
            return Reference(None, reason=str(e))
        reason = counted.reason
        notes = (f"the model's operations are not counted: {reason}",) if reason else ()
        return Reference(path, work=counted.work, notes=notes, seconds=seconds)

    def answer(self) -> tuple[str, Mapping[str, float]]:
        """Compute the answers, unless they exist, and go on after the last batch of a worker that
        was interrupted. Return (why there are none, or empty; step → its seconds).
        """
        if self.path.exists():
            return "", {}
        request = self.request
        reason = shortage(request)
        if reason:
            return reason, {}
        scratch = self.scratch
        outcome = self._run(self._job(request, scratch))
        on_device = DEVICES[request.device].accelerator and not request.trains
        if outcome.status == "oom" and on_device:
            on_host = replace(request, device=HOST)
            reason = shortage(on_host)
            if reason:
                return f"{reason}; on {request.device}: {outcome.reason}", {}
            self.reporter.say(
                f"the reference does not fit on {request.device} ({outcome.reason}): the CPU"
                " makes it, which may take long"
            )
            outcome = self._run(self._job(on_host, scratch))
        if outcome.status != "ok":
            return f"{outcome.status}: {outcome.reason}", {}
        used_files.check(request.linked)
        shutil.rmtree(self.folder, ignore_errors=True)
        for part in scratch.glob(PARTS):
            part.unlink()
        scratch.rename(self.folder)
        counted_work.keep(self.folder)
        loading_s = (outcome.import_ns + outcome.load_ns) / 1e9
        seconds = {"load": loading_s, **outcome.seconds}
        total = {"total": sum(seconds.values())}
        self.reporter.say(f"reference: {times(total | seconds)}")
        return "", seconds

    def count(self) -> Counted:
        """Return the work of a sample (`counted_work.of`)."""
        self.folder.mkdir(exist_ok=True)
        known = self.path if self.path.exists() else None
        scratch = self.scratch.with_suffix(".work")
        job = replace(self._job(self.request, scratch), procedure=COUNT, reference=known)
        return counted_work.of(
            self.request, self.name, self.folder, lambda: self._run(job), scratch
        )

    def _job(self, request: Request, log_dir: Path) -> Job:
        attempt = self.attempt
        inputs = attempt.inputs
        trains = request.trains
        batch = request.batch_size if trains else min(REFERENCE_BATCH, inputs.count)
        cell = replace(
            request.cell(),
            sut=self.name,
            precision=spec_of(self.name).precisions[0],
            batch_size=batch,
            options={},
            quantized=None,
            stream=False,
            tuned=False,
            switches=(),
        )
        return attempt.job(
            cell,
            log_dir,
            config=attempt.workload_config,
            test=REFERENCE,
            procedure=FIT if trains else "reference",
            benchmark=request.benchmark,
            answer=request.model.answer_keys,
            limits=Limits(
                min_duration_ms=0, min_query_count=0, performance_sample_count=inputs.count
            ),
            logits_rows=attempt.logits_rows,
            fresh=inputs.fresh if trains else None,
        )

    def _run(self, job: Job) -> WorkerOutcome:
        job.log_dir.mkdir(exist_ok=True)
        for file in job.log_dir.iterdir():
            if not file.match(PARTS):
                file.unlink()
        variables = {**spec_of(self.name).process_env, **_PATIENT}
        watch = self.reporter.watch("reference")
        return process.run(job, self.environment(self.name).python, variables, watch)


def shortage(request: Request) -> str | None:
    """Why this machine has too little memory for a reference. None: it has enough, or that is not
    known.
    """
    return memory_shortage(request, spec_of(request.references[0]).precisions[0])
