"""Takes a SUT's evidence of the timed call itself. The SUT does not choose which call is
watched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from formats.job import Job
from scenarios.worker import host_memory
from scenarios.worker.qsl import Qsl
from scenarios.worker.streaming import Streamed
from sut.contract import Batch, Evidence, Inference, Training
from sut.evidence import compilations, matrix_library


def batches(job: Job, sut: Inference) -> list[Batch]:
    """One batch of the smallest shape, and one of the largest, if they differ.

    The values are synthetic and the shapes have run in the warm-up.
    """
    synthetic = Qsl(job.synthetic, sut.prepare)
    rows = sorted({0, job.warmup_rows - 1})  # the warm-up rows ascend
    synthetic.load(rows)
    return [synthetic.batch([row], job.workload.batch_size) for row in rows]


_latest: list[tuple[Inference, Evidence]] = []
"""The SUT of this process and its evidence from after the last test."""


def forget() -> None:
    """Let the next test take evidence before it, because a program may be compiled now."""
    _latest.clear()


class Taker:
    """Takes a SUT's evidence right before and right after a test.

    The evidence from after a test is that from before the next one. If anything between the two
    compiles a program, the next evidence shows it. Two successive ones are of different numbers of
    batches, so that constant counts would be noticed: of one, and of each shape with as many more
    as the SUT has in flight.
    """

    def __init__(self, sut: Inference, batches: Sequence[Batch]):
        """`batches`: one of each shape; see the function `batches`."""
        self._sut = sut
        self._batches = batches
        self._more = [batches[0]] * sut.in_flight + [*batches]
        self._begun: Evidence | int = 0

    def begin(self) -> None:
        """Take the evidence right before a test, unless there is that from after the last one.

        If the framework counts compiled programs without its profiler, only their number is taken.
        That is JAX, whose profiler reaches the GPU. No profiler may run before its first test.
        """
        compiled = compilations.count()
        if _latest and _latest[0][0] is self._sut:
            self._begun = _latest[0][1]
        else:
            self._begun = self._watch(self._batches[:1]) if compiled is None else compiled

    def end(self) -> tuple[Evidence, Evidence]:
        """Return, right after a test, the evidence from before and after it.

        If `begin` took a number of programs, both are taken now, and the first one's `compilations`
        are reduced by those of the test.
        """
        before = self._begun
        if not isinstance(before, Evidence):
            while_measuring = _compiled() - before
            before = self._watch(self._batches)
            before = _with(before, compilations=_compiled() - while_measuring)
        as_many = before.detail["batches"] == len(self._more)
        after = self._watch(self._batches[:1] if as_many else self._more)
        _latest[:] = [(self._sut, after)]
        return before, after

    def _watch(self, batches: Sequence[Batch]) -> Evidence:
        evidence = watch(self._sut, batches)
        compiled = compilations.count()
        return evidence if compiled is None else _with(evidence, compilations=compiled)


def _compiled() -> int:
    return compilations.count() or 0


def _with(evidence: Evidence, **detail: int | None) -> Evidence:
    return replace(evidence, detail={**evidence.detail, **detail})


def watch(sut: Inference, batches: Sequence[Batch]) -> Evidence:
    """Return the framework's evidence of one call: `predict` and `to_host` of each of these
    prepared batches.

    As many batches are pending as in Offline, so that the evidence shows a SUT that computes
    several at once. The detail "batches" is the number of batches, and "steps", for a SUT that
    streams, the number of tokens that it handed over for each row. Raises ValueError unless the SUT
    made the call exactly once.
    """
    earlier = sut.steps if isinstance(sut, Streamed) else 0
    evidence = of_call(sut, lambda: answer(sut, batches), len(batches))
    return _with(evidence, steps=sut.steps - earlier) if isinstance(sut, Streamed) else evidence


def of_call(sut: Inference | Training, work: Callable[[], None], batches: int) -> Evidence:
    """Return the framework's evidence of one call of `work`, which handles so many batches. Raises
    ValueError unless the SUT made the call exactly once.
    """
    calls = 0

    def call() -> None:
        nonlocal calls
        work()
        calls += 1

    with host_memory.watching():
        evidence = sut.evidence(call)
    if calls != 1:
        raise ValueError(
            f"the SUT's evidence made the call that it was given {calls} times; it makes it once,"
            " under the framework's profiler"
        )
    return _with(evidence, batches=batches, processors=matrix_library.processors())


def answer(sut: Inference, batches: Iterable[Batch]) -> None:
    """Answer these prepared batches. As many are pending as in Offline."""
    pending: deque[Any] = deque()
    for batch in batches:
        pending.append(sut.predict(batch))
        if len(pending) >= sut.in_flight:
            sut.to_host(pending.popleft())
    while pending:
        sut.to_host(pending.popleft())
    sut.synchronise()


def threads(evidence: Evidence) -> dict[str, int]:
    """`threads`: the framework's own count of its threads. Empty if it reports none."""
    products = evidence.detail.get("matrix_products") or {}
    count = products.get("threads", evidence.detail.get("threads"))
    return {"threads": count} if type(count) is int else {}
