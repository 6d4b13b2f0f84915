"""Takes a SUT's evidence of the timed call itself. The SUT does not choose which call is
watched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from formats.job import Job
from scenarios.worker import host_memory, prepared_inputs
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.qsl import Qsl
from scenarios.worker.replicas import cores
from scenarios.worker.streaming import Streamed
from sut import tuning
from sut.contract import Batch, Evidence, Inference, Training
from sut.evidence import compilations

Within = Callable[[], AbstractContextManager[None]]
"""Returns the context in which the batches of a call are answered."""


def batches(job: Job, sut: Inference) -> list[Batch]:
    """As many batches of the smallest shape as the SUT has in flight, and one of the largest, if
    they differ.

    The values are synthetic and the shapes have run in the warm-up.
    """
    synthetic = Qsl(job.synthetic, sut.prepare)
    # The warm-up rows ascend.
    rows = [0] * sut.in_flight + [job.warmup_rows - 1] * (job.warmup_rows > 1)
    synthetic.load(sorted(set(rows)))
    return [synthetic.batch([row], job.workload.batch_size) for row in rows]


class Taker:
    """Takes a SUT's evidence right before and right after a test.

    `limit_s`: seconds without a sign of `beat` after which the batches of a call count as hung.
    """

    def __init__(self, job: Job, sut: Inference, beat: Heartbeat, limit_s: float):
        self._sut = sut
        self._within = partial(beat.within, limit_s)
        self._batches = batches(job, sut)
        self._begun: Evidence | int = 0

    def begin(self) -> None:
        """See the function `begin`."""
        self._begun = begin(self._sut, self._batches, self._within)

    def end(self) -> tuple[Evidence, Evidence]:
        """See the function `end`."""
        return end(self._sut, self._batches, self._begun, self._within)


def begin(sut: Inference, batches: Sequence[Batch], within: Within = nullcontext) -> Evidence | int:
    """Return, right before a test, the evidence of these batches or the number of compiled
    programs.

    The number is taken if the framework counts without its profiler. That is JAX, whose profiler
    reaches the GPU.
    """
    compiled = compilations.count()
    return watch(sut, batches, within) if compiled is None else compiled


def end(
    sut: Inference,
    batches: Sequence[Batch],
    begun: Evidence | int,
    within: Within = nullcontext,
) -> tuple[Evidence, Evidence]:
    """Return, right after a test that began with `begun`, the evidence from before and after it.

    If `begun` is a number of programs, no profiler may run before the test. Then both are taken
    now, and the first one's `compilations` are reduced by those of the test. The second evidence
    is of one more batch, so that constant counts would be noticed.
    """
    longer = [batches[0], *batches]
    if isinstance(begun, Evidence):
        return begun, watch(sut, longer, within)
    while_measuring = _compiled() - begun
    before = watch(sut, batches, within)
    compiled = _compiled()
    after = watch(sut, longer, within)
    return _with(before, compilations=compiled - while_measuring), _with(
        after, compilations=_compiled()
    )


def _compiled() -> int:
    return compilations.count() or 0


def _with(evidence: Evidence, **detail: Any) -> Evidence:
    return replace(evidence, detail={**evidence.detail, **detail})


def watch(sut: Inference, batches: Sequence[Batch], within: Within = nullcontext) -> Evidence:
    """Return the framework's evidence of one call: `predict` and `to_host` of each of these
    prepared batches.

    As many batches are pending as in Offline, so that the evidence shows a SUT that computes
    several at once. The detail "batches" is the number of batches, and "steps", for a SUT that
    streams, the number of tokens that it handed over for each row. Raises ValueError unless the SUT
    made the call exactly once.
    """
    earlier = sut.steps if isinstance(sut, Streamed) else 0

    def work() -> None:
        with within():
            answer(sut, batches)

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
