"""Converts an error that was raised in a worker to the worker's outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from formats.job import Job
from formats.outcome import WorkerOutcome
from formats.writing import write_json
from scenarios.worker import preflight
from sut.contract import Unsupported
from sut.devices import DEVICES, HOST
from sut.evidence import causes
from sut.registry import REFERENCES, SUTS

# Python's and numpy's own words; those of a framework are in the registry.
_OUT_OF_MEMORY = ("MemoryError", "Out of memory")


class Reported(Exception):
    """An outcome that another process reported, or that was found out about it."""

    def __init__(self, outcome: WorkerOutcome):
        super().__init__(outcome.reason)
        self.outcome = outcome


def reported(job: Job, callback: Callable[..., None]) -> Callable[..., None]:
    """Return a callback of LoadGen that writes the outcome of an error before it raises the error.
    LoadGen's logger may crash the process after an exception.
    """

    def call(*arguments: Any) -> None:
        try:
            callback(*arguments)
        except Exception as e:
            outcome = outcome_of(e, job.sut, job.workload.device)
            write_json(job.log_dir / "outcome.json", outcome)
            raise

    return call


def outcome_of(error: Exception, sut: str, device: str = HOST) -> WorkerOutcome:
    """The outcome of a worker in which an error was raised: out of memory, in the words of Python
    or the framework, or another error.

    For out of memory, the reason contains the requested bytes, if the framework reports them, and
    the bytes that the machine still had. The free bytes of an accelerator are added only by its
    framework. `unsupported` and `skipped` have errors of their own.
    """
    if isinstance(error, Reported):
        return error.outcome
    if isinstance(error, Unsupported):
        # The outcome of a library that refuses a model, unless it ran out of memory.
        if isinstance(error.__cause__, Exception):
            outcome = outcome_of(error.__cause__, sut, device)
            if outcome.status == "oom":
                return outcome
        return WorkerOutcome("unsupported", str(error))
    if isinstance(error, preflight.Refused):
        return WorkerOutcome("skipped", str(error), refused=error.numbers)
    known = SUTS | REFERENCES
    kind = type(error).__name__
    first = f"{kind}: {causes.line(error)}".removesuffix(": ")
    words = (*_OUT_OF_MEMORY, *(known[sut].out_of_memory if sut in known else ()))
    if not any(word in f"{kind} {error}" for word in words):
        return WorkerOutcome("error", first[:500], refused=getattr(error, "numbers", {}))
    others = str(error).strip().split("\n")[1:]
    reason = first[:400]
    for line in (first, *(f"{kind}: {line.strip()}" for line in others)):
        if asked := causes.asked_bytes(line):
            reason = f"{line[:400]}; asked for {asked:,} bytes"
            break
    available = None if DEVICES[device].accelerator else preflight.free_memory_bytes()
    if available is not None:
        reason += f"; available {available:,} bytes"
    return WorkerOutcome("oom", reason)
