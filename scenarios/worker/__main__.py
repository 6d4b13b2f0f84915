"""`python -m scenarios.worker PARENT_ID REPLIES`, run by the SUT's interpreter. Each line of its
input is the path of a job.json. It runs the jobs one after another.

The first job loads the SUT and warms it up; the jobs after it use the loaded SUT. Each job runs one
procedure (for example, a LoadGen test) and writes its outcome.json. Then the worker writes a line
to the file descriptor REPLIES, and is ready for the next job. It ends with its input, after a job
that failed, and after a training.

The exit code is 0 if outcome.json was written, whatever its status. Without outcome.json, the
parent finds the cause from signal, kernel and disk.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter_ns as _clock
from typing import Any

from formats.job import COUNT, PROFILE, REFERENCE, SERVE, Job, read_job
from formats.outcome import Fields, WorkerOutcome
from formats.writing import write_json
from scenarios.worker import failures, procedures, profile
from scenarios.worker.child import end_with_parent
from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat
from scenarios.worker.queries import engine, streaming
from scenarios.worker.ranks import processes, sharded
from scenarios.worker.ranks.processes import Ranks
from scenarios.worker.replicas.dispatcher import Replicated
from scenarios.worker.system import host_memory
from scenarios.worker.watching.warm_up import warm_up
from sut.contract import Unsupported
from sut.evidence import compilations, generated_files, matrix_rate
from sut.registry import FIT, loader


@dataclass(frozen=True)
class Loaded:
    """A loaded and warm SUT.

    Attributes:
        test: the test whose job loaded it.
        sut: an `Inference` or a `Training`.
        slowest_ns: the time of the slowest warm batch; 0 if no shape ran twice.
        fields: `import_ns`, `load_ns`, `warmup`, `answers`, `cache_hits` and `cache_misses` of the
            WorkerOutcome.
    """

    test: str
    sut: Any
    slowest_ns: float
    fields: Fields


@dataclass(frozen=True)
class Fork:
    """How this process was forked from one that had imported the SUT (`scenarios.worker.zygote`).

    Attributes:
        number: its number among those that the process forked, from 1.
        import_ns: the time of the import there; of a fresh process 0.
        file_bytes: the memory of libraries there.
    """

    number: int = 0
    import_ns: int = 0
    file_bytes: int = 0


FRESH = Fork()


def main(argv: list[str], fork: Fork = FRESH) -> None:
    """Do the jobs and end the process. `argv` is this program, the parent's process id and the
    file descriptor of the replies.
    """
    die_with_parent(int(argv[1]))
    host_memory.inherit(fork.file_bytes)
    loaded: Loaded | None = None
    # Programs that a framework starts shall neither read jobs nor hold the replies open.
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    pipe = os.dup(int(argv[2]))
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.close(int(argv[2]))
    with jobs, os.fdopen(pipe, "w", encoding="ascii", buffering=1) as replies:
        for line in jobs:
            job = read_job(Path(line.rstrip("\n")))
            outcome, loaded = run(job, loaded)
            import_ns = outcome.import_ns + (fork.import_ns if outcome.import_ns else 0)
            outcome = replace(outcome, forked=fork.number, import_ns=import_ns)
            write_json(job.log_dir / "outcome.json", outcome)
            sys.stdout.flush()
            sys.stderr.flush()
            # LoadGen's logger is undefined after an exception. A training has changed the model.
            if outcome.status != "ok" or job.procedure == FIT:
                break
            replies.write("\n")
    if loaded:
        _close_others(loaded)
    generated_files.remove()
    # Frameworks' threads may never end.
    os._exit(0)


def run(job: Job, loaded: Loaded | None) -> tuple[WorkerOutcome, Loaded | None]:
    """Run one job, whose output goes to worker.log of its folder. → its outcome and the SUT, loaded
    if it was not.
    """
    os.chdir(job.log_dir)
    with (job.log_dir / "worker.log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    beat = Heartbeat(job.log_dir / "heartbeat")
    try:
        outcome, loaded = measure(job, beat, loaded)
    # Whatever a framework raises becomes a status. The traceback stays in worker.log.
    except Exception as e:  # noqa: BLE001
        traceback.print_exc()
        outcome = failures.outcome_of(e, job.sut, job.workload.device)
    beat.enter("done", 60)
    return outcome, loaded


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process (SIGKILL) when its parent dies, and choose it first if
    memory runs out.
    """
    # Ctrl-C goes to the whole terminal; the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if os.getppid() != parent:  # the parent died before the call above
        os._exit(1)


def measure(
    job: Job, beat: Heartbeat, loaded: Loaded | None = None
) -> tuple[WorkerOutcome, Loaded]:
    """Run the job's procedure on the loaded SUT. If there is none, load it and warm it up first."""
    procedure = procedures.PROCEDURES[job.procedure]
    loaded = loaded or (_replicated(job, beat) if job.replicated else load_and_warm_up(job, beat))
    if isinstance(loaded.sut, Replicated):
        loaded.sut.take(job, beat)
    try:
        fields = procedure(job, loaded.sut, beat, loaded.slowest_ns)
    except BaseException:
        _close_others(loaded)
        raise
    outcome = WorkerOutcome(
        "ok",
        peak_host_bytes=host_memory.peak_bytes() + bytes_of_others(loaded.sut),
        versions=versions(),
        loaded_for="" if loaded.test == job.test else loaded.test,
        **{**loaded.fields, **fields},
    )
    return outcome, loaded


def _replicated(job: Job, beat: Heartbeat) -> Loaded:
    """Start the replicas of the job's SUT. Times are those of the slowest replica."""
    beat.enter("load", LOAD_LIMIT_S)
    sut = Replicated(job, beat)
    of_each = [loaded["fields"] for loaded in sut.loaded]
    fields = dict(of_each[0])
    for name in ("import_ns", "load_ns", "cache_hits", "cache_misses"):
        fields[name] = max(each[name] for each in of_each)
    fields["warmup"] = [
        {name: max(shape[name] for shape in shapes) for name in shapes[0]}
        for shapes in zip(*(f["warmup"] for f in of_each), strict=True)
    ]
    return Loaded(job.test, sut, max(loaded["slowest_ns"] for loaded in sut.loaded), fields)


def _others(sut: Any) -> Replicated | Ranks | None:
    """The other processes that run the SUT. None: there are none."""
    inner = sut.sut if isinstance(sut, streaming.Streamed) else sut
    if isinstance(inner, sharded.Sharded):
        return inner.ranks
    return inner if isinstance(inner, Replicated) else None


def _close_others(loaded: Loaded) -> None:
    """End the other processes that run the SUT."""
    others = _others(loaded.sut)
    if others:
        others.close()


def bytes_of_others(sut: Any) -> int:
    """The most memory that the other processes used that run the SUT, the sum over all."""
    others = _others(sut)
    return others.peak_host_bytes if others else 0


def load_and_warm_up(job: Job, beat: Heartbeat) -> Loaded:
    """Load the job's SUT and run every shape on it."""
    beat.enter("load", LOAD_LIMIT_S)
    start = _clock()
    group = Ranks(job) if processes.needed(job) else None
    if job.procedure == PROFILE:
        profile.prepare(job)
    load = loader(job.sut, job.architecture, job.workload.task)
    import_ns = _clock() - start
    if job.known:
        matrix_rate.know(job.known.matrix_flops)
    start = _clock()
    sut = sharded.load(group, load) if group else load(job.workload)
    check_in_flight(job, sut)
    if engine.is_engine(job):
        sut = engine.EngineSut(sut, job.stream)
    elif job.stream:
        if not hasattr(sut, "stream"):
            raise Unsupported("--stream: this SUT hands over only whole answers: leave it out")
        sut = streaming.Streamed(sut, job.workload.config.get("end_tokens", ()))
    sut.synchronise()
    fields: Fields = {"import_ns": import_ns, "load_ns": _clock() - start}
    # A training has no warm-up, because a step would change the model. Its first step is timed
    # separately. Serving warms up its own shapes. Neither counting nor a reference is timed.
    if job.workload.task == FIT or job.procedure in (SERVE, COUNT) or job.test == REFERENCE:
        return Loaded(job.test, sut, 0, fields)
    hits = compilations.hits()
    misses = compilations.misses()
    fields["warmup"], fields["answers"] = warm_up(job, sut, beat)
    fields["cache_hits"] = compilations.hits() - hits
    fields["cache_misses"] = compilations.misses() - misses
    slowest_ns = max(shape.get("second_ns", 0) for shape in fields["warmup"])
    return Loaded(job.test, sut, slowest_ns, fields)


def check_in_flight(job: Job, sut: Any) -> None:
    """Raises Unsupported if the cell's number of batches in flight is not the SUT's for this
    model.
    """
    kept = getattr(sut, "in_flight", 1)
    if engine.is_engine(job):
        return
    if "in_flight" in job.workload.options and job.workload.in_flight != kept:
        raise Unsupported(
            f"--sut-option in_flight={job.workload.in_flight}: for {job.workload.model} this SUT"
            f" keeps {kept}: leave it out"
        )


def versions() -> dict[str, str]:
    """Every distribution of this environment, and the interpreter."""
    found = {
        d.metadata["Name"]: d.version
        for d in importlib.metadata.distributions()
        if d.metadata["Name"]
    }
    return {"python": sys.version.split()[0], **dict(sorted(found.items()))}


if __name__ == "__main__":
    main(sys.argv)
