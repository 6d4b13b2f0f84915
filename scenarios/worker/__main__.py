"""`python -m scenarios.worker JOB.json`, interpreter = the SUT's: load, warm-up, ONE procedure (a
LoadGen test, say), outcome.

Exit code 0 with outcome.json, whatever its status; without outcome.json the parent tells from
signal, kernel and disk what happened.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from formats.job import Job, read_job
from formats.outcome import WorkerOutcome
from formats.writing import write_json
from scenarios.worker import host_memory, preflight, procedures
from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat
from scenarios.worker.warm_up import warm_up
from sut.contract import Unsupported
from sut.devices import DEVICES, HOST
from sut.evidence import generated_files
from sut.evidence.out_of_memory import asked_bytes
from sut.registry import FIT, REFERENCES, SUTS, loader

_clock = time.perf_counter_ns
# Python's and numpy's own; what a framework says is in the registry.
_OUT_OF_MEMORY = ("MemoryError", "Out of memory")


def main(argv: list[str]) -> None:
    """Do one job and end the process. `argv`: this program, the job's file, the parent's process
    id.
    """
    die_with_parent(int(argv[2]))
    job = read_job(Path(argv[1]))
    beat = Heartbeat(job.log_dir / "heartbeat")
    try:
        outcome = measure(job, beat)
    except Unsupported as e:
        outcome = WorkerOutcome("unsupported", str(e))
    except preflight.Refused as e:
        outcome = WorkerOutcome("skipped", str(e))
    # Whatever a framework raises becomes a status. The traceback stays in worker.log.
    except Exception as e:  # noqa: BLE001
        traceback.print_exc()
        outcome = failure(e, job.sut, job.workload.device)
    write_json(job.log_dir / "outcome.json", outcome)
    beat.enter("done", 60)
    generated_files.remove()
    sys.stdout.flush()
    sys.stderr.flush()
    # LoadGen's logger is undefined after an exception, and frameworks' threads may never end.
    os._exit(0)


def die_with_parent(parent: int) -> None:
    """Linux: SIGKILL this process when its parent dies however it dies, and volunteer as the
    kernel's out-of-memory victim.
    """
    # Ctrl-C goes to the whole terminal; the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if os.getppid() != parent:  # it died before it could be watched
        os._exit(1)


def failure(error: Exception, sut: str, device: str = HOST) -> WorkerOutcome:
    """The outcome of a worker in which something was raised: out of memory, in Python's words or in
    the framework's, or an error.

    Out of memory is told with the bytes that were asked for, where the framework says them, and
    those that the machine still had; how many an accelerator has, its framework says or nobody
    does.
    """
    known, kind = SUTS | REFERENCES, type(error).__name__
    words = (*_OUT_OF_MEMORY, *(known[sut].out_of_memory if sut in known else ()))
    first, *others = f"{kind}: {error}".strip().split("\n")
    # Of a traced function TensorFlow tells each line of source, and the innermost error last.
    if first.endswith("in user code:"):
        first = next(
            (line.strip() for line in reversed(others) if line.strip().startswith(f"{kind}: ")),
            first,
        )
    if not any(word in f"{kind} {error}" for word in words):
        return WorkerOutcome("error", first[:500])
    lines = [first, *(f"{kind}: {line.strip()}" for line in others)]
    line, asked = next(
        ((line, asked) for line in lines if (asked := asked_bytes(line))), (first, None)
    )
    available = None if DEVICES[device].accelerator else preflight.free_memory_bytes()
    told = {"asked for": asked, "available": available}
    return WorkerOutcome(
        "oom",
        "; ".join(
            [
                line[:400],
                *(f"{name} {count:,} bytes" for name, count in told.items() if count is not None),
            ]
        ),
    )


def measure(job: Job, beat: Heartbeat) -> WorkerOutcome:
    """Load the SUT, warm it up, and do what the job names."""
    procedure = procedures.find(job.procedure)
    beat.enter("load", LOAD_LIMIT_S)
    versions = _versions()
    start = _clock()
    load = loader(job.sut, job.family, job.workload.task)
    import_ns = _clock() - start
    start = _clock()
    sut = load(job.workload)
    check_in_flight(job, sut)
    sut.synchronise()
    fields: dict[str, Any] = {"import_ns": import_ns, "load_ns": _clock() - start}
    slowest_ns = 0
    # A step would change the model: the first one of a training is told apart.
    if job.procedure != FIT:
        fields["warmup"], fields["answers"] = warm_up(job, sut, beat)
        slowest_ns = max(w["second_ns"] for w in fields["warmup"])
    fields |= procedure(job, sut, beat, slowest_ns)
    return WorkerOutcome(
        "ok", peak_host_bytes=host_memory.peak_bytes(), versions=versions, **fields
    )


def check_in_flight(job: Job, sut: Any) -> None:
    """Raises Unsupported if the cell names another number of batches in flight than the SUT keeps
    for this model.
    """
    kept = getattr(sut, "in_flight", 1)
    if "in_flight" in job.workload.options and job.workload.in_flight != kept:
        raise Unsupported(
            f"--sut-option in_flight={job.workload.in_flight}: for {job.workload.model} this SUT"
            f" keeps {kept}: leave it out"
        )


def _versions() -> dict[str, str]:
    """Every distribution of this environment, and the interpreter."""
    versions = {
        d.metadata["Name"]: d.version
        for d in importlib.metadata.distributions()
        if d.metadata["Name"]
    }
    return {"python": sys.version.split()[0], **dict(sorted(versions.items()))}


if __name__ == "__main__":
    main(sys.argv)
