"""Takes a SUT's evidence of the timed call itself. The SUT does not choose which call is
watched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from formats.job import Job
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.queries import engine, prepared_inputs
from scenarios.worker.queries.answers import TOKENS
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.queries.streaming import Streamed
from scenarios.worker.system import cores, host_memory
from sut import tuning
from sut.contract import Batch, Evidence, Inference, Training
from sut.evidence import compilations

_FEW_TOKENS = 4
LONG_BATCH_NS = 500_000_000
"""What looks at a batch of at least this time looks no more often than it must."""

Within = Callable[[], AbstractContextManager[None]]
"""Returns the context in which the batches of a call are answered."""


@dataclass(frozen=True)
class Watched:
    """A batch to watch. `samples`: as many average inputs have as many tokens as its rows. 0: its
    rows are shorter than the longest inputs, and their work is not known.
    """

    batch: Batch
    samples: float


def batches(job: Job, sut: Inference, requests: Iterable[int] = ()) -> list[Watched]:
    """Batches of the smallest, the median and the largest size. If there are longer shapes, there
    is one more of the longest. The last batch is the largest one of all.

    The values are synthetic and the shapes have run in the warm-up. Answers have _FEW_TOKENS where
    each token runs the same code: a profiler makes an eager token several times as long.

    Args:
        requests: the requests of each batch of the test that was; empty: it may have any size.
    """
    synthetic = Qsl(job.synthetic, sut.prepare)
    last = job.warmup_rows - 1  # the warm-up rows ascend
    synthetic.load(sorted({0, last}))
    shapes = [(0, size) for size in sizes(job, requests)]
    if last:
        shapes.append((last, shapes[-1][1]))
    samples = _average_inputs(job, synthetic.arrays, last)
    is_short = job.answer == TOKENS and (job.workload.execution == "eager" or job.stream)
    watched = []
    for row, size in shapes:
        batch = synthetic.batch([row], size)
        if is_short:
            fewer = np.minimum(batch["max_new_tokens"], _FEW_TOKENS)
            batch = {**batch, "max_new_tokens": fewer}
        watched.append(Watched(batch, size * samples if row == last else 0.0))
    return watched


def _average_inputs(job: Job, synthetic: Batch, row: int) -> float:
    """Return as many average inputs have as many tokens as this row. It is 1 without tokens."""
    for name in ("prompt_length", "attention_mask"):
        if name in synthetic:
            with np.load(job.inputs) as inputs:
                every = inputs[name]
            return float(synthetic[name][row].sum() * len(every) / every.sum())
    return 1.0


def sizes(job: Job, requests: Iterable[int] = ()) -> list[int]:
    """The smallest, the median and the largest size of the test's batches, ascending. See
    `batches`.
    """
    possible = job.batch_sizes
    if not job.serves or engine.is_engine(job):
        return [job.workload.batch_size]
    used = {next(size for size in possible if size >= count) for count in requests}
    ascending = sorted(used or possible)
    return sorted({ascending[0], ascending[len(ascending) // 2], ascending[-1]})


_latest: list[tuple[Inference, Evidence]] = []
"""The SUT of this process and its evidence from after the last test."""


def forget() -> None:
    """Let the next test take evidence before it, because a program may be compiled now."""
    _latest.clear()


@dataclass(eq=False)
class Taker:
    """Takes a SUT's evidence right before and right after a test.

    The evidence from after a test is that from before the next one. If anything between the two
    compiles a program, the next evidence shows it. Two successive ones are of different numbers of
    batches, so that constant counts would be noticed: of the longest one, and of each shape with as
    many more as the SUT has in flight.

    If batches are long and the framework counts compiled programs without its profiler, each shape
    is watched once, until a program is compiled.

    Attributes:
        shapes: the function `batches` of a job and its SUT.
    """

    sut: Inference
    shapes: Callable[[Iterable[int]], list[Watched]]
    within: Within = nullcontext
    long_batches: bool = False
    _begun: Evidence | int = 0

    def begin(self) -> None:
        """Take the evidence right before a test, unless there is that from after the last one.

        If the framework counts compiled programs without its profiler, only their number is taken.
        That is JAX, whose profiler reaches the GPU. No profiler may run before its first test.
        """
        compiled = compilations.count()
        if _latest and _latest[0][0] is self.sut:
            self._begun = _latest[0][1]
        else:
            self._begun = self._watch(self.shapes(())[-1:]) if compiled is None else compiled

    def end(self, requests: Iterable[int] = ()) -> tuple[Evidence, Evidence]:
        """Return, right after a test, the evidence from before and after it.

        If `begin` took a number of programs, both are taken now, and the first one's `compilations`
        are reduced by those of the test. `requests`: see `batches`.
        """
        last = self._begun
        watched = self.shapes(requests)
        if isinstance(last, Evidence):
            before = last
        else:
            of_test = (compilations.count() or 0) - last
            last = self._watch(watched)
            before = _with(last, compilations=last.detail["compilations"] - of_test)
        after = last
        programs = compilations.count()
        compiled = programs is None or programs != last.detail["compilations"]
        if compiled or not self.long_batches:
            more = watched[:1] * self.sut.in_flight + watched
            as_many = last.detail["batches"] == len(more)
            after = self._watch(watched[-1:] if as_many else more)
        _latest[:] = [(self.sut, after)]
        return before, after

    def _watch(self, watched: Sequence[Watched]) -> Evidence:
        """Return the evidence of these batches. Its `samples` are those of the batches. `rows` are
        the rows that have samples, and `later_tokens` those of their answers after the first one.
        """
        answers: list[Batch] = []
        shapes = [each.batch for each in watched]
        evidence = watch(self.sut, shapes, answers.append, self.within)
        detail: dict[str, float] = {"samples": 0.0, "rows": 0, "later_tokens": 0}
        for each, answer in zip(watched, answers, strict=True):
            detail["samples"] += each.samples
            if each.samples:
                detail["rows"] += len(next(iter(each.batch.values())))
            if each.samples and "n_tokens" in answer:
                detail["later_tokens"] += int((answer["n_tokens"] - 1).sum())
        compiled = compilations.count()
        if compiled is not None:
            detail["compilations"] = compiled
        return _with(evidence, **detail)


def taker(
    job: Job, sut: Inference, beat: Heartbeat, limit_s: float, batch_ns: float = 0.0
) -> Taker:
    """Return what takes the evidence of a job's test.

    Args:
        limit_s: seconds after which a batch counts as hung. The batches of one call show no sign of
            `beat` between them.
        batch_ns: nanoseconds of a batch; 0: it is not known.
    """
    most = len(sizes(job)) + 1 + sut.in_flight
    within = partial(beat.within, most * limit_s)
    return Taker(sut, partial(batches, job, sut), within, batch_ns >= LONG_BATCH_NS)


def _with(evidence: Evidence, **detail: Any) -> Evidence:
    return replace(evidence, detail={**evidence.detail, **detail})


def watch(
    sut: Inference,
    batches: Sequence[Batch],
    on_answer: Callable[[Batch], object] = len,
    within: Within = nullcontext,
) -> Evidence:
    """Return the framework's evidence of one call: `predict` and `to_host` of each of these
    prepared batches. `on_answer` gets the answers of each.

    As many batches are pending as in Offline, so that the evidence shows a SUT that computes
    several at once. The detail "batches" is the number of batches, and "steps", for a SUT that
    streams, the number of tokens that it handed over for each row. Raises ValueError unless the SUT
    made the call exactly once.
    """
    earlier = sut.steps if isinstance(sut, Streamed) else 0

    def work() -> None:
        with within():
            answer(sut, batches, on_answer)

    evidence = of_call(sut, work, len(batches))
    return _with(evidence, steps=sut.steps - earlier) if isinstance(sut, Streamed) else evidence


def of_call(sut: Inference | Training, work: Callable[[], object], batches: int) -> Evidence:
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
    processors = len(cores.of_process()) or None
    variables = tuning.found_variables()
    return _with(evidence, batches=batches, processors=processors, variables=variables)


_WORK = {
    "forward_passes": "forward passes of the model",
    "regions": "entries into compiled code",
    "script_calls": "entries into TorchScript",
    "products": "matrix products",
    "products_left": "matrix products",
    "table_lookups": "look-ups in a table",
    "operators_that_compute": "operators that compute",
}
"""A count in an evidence's detail → its words. `prepare` has none of these."""


def watch_prepare(sut: Inference, prepare: Callable[[], object]) -> None:
    """Call `prepare`, which lets the SUT prepare inputs that it has never met. Raises ValueError if
    the framework does more in it than to copy.
    """
    detail = of_call(sut, prepare, 1).detail
    operators = detail.get("matrix_products", {}).get("operators", {})
    counts = {**detail, "products": sum(operators.values())}
    found = [f"{counts[name]} {words}" for name, words in _WORK.items() if counts.get(name)]
    if found:
        raise ValueError(f"prepare ran {', '.join(found)}; {prepared_inputs.RULE}")


def answer(
    sut: Inference, batches: Iterable[Batch], on_answer: Callable[[Batch], object] = len
) -> None:
    """Answer these prepared batches. As many are pending as in Offline."""
    pending: deque[Any] = deque()
    for batch in batches:
        pending.append(sut.predict(batch))
        if len(pending) >= sut.in_flight:
            on_answer(sut.to_host(pending.popleft()))
    while pending:
        on_answer(sut.to_host(pending.popleft()))
    sut.synchronise()


def threads(evidence: Evidence) -> int | None:
    """The framework's own count of its threads. None if it reports none."""
    products = evidence.detail.get("matrix_products") or {}
    count = products.get("threads", evidence.detail.get("threads"))
    return count if type(count) is int else None
