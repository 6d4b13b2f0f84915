"""Offline: all samples in one query; batches of batch_size, `in_flight` of them submitted ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from scenarios.answers import pack
from scenarios.job import Job, Limits
from scenarios.qsl import Qsl
from sut.contract import Inference

# LoadGen issues 1.1 × min_duration × target_qps samples. With another 15 % over the fastest calibrated window the run of a steady SUT lasts
# a quarter longer than it must: where the machine was busier while it calibrated, ten minutes do not end INVALID.
_MARGIN = 1.15


def user_conf(limits: Limits, fastest_sample_ns: float, median_sample_ns: float) -> dict[str, float]:
    return {"target_qps": _MARGIN * 1e9 / fastest_sample_ns}


def callbacks(sut: Inference, qsl: Qsl, respond: Callable[..., None], job: Job) -> tuple[Callable[..., None], Callable[[], None]]:
    size, keys = job.workload.batch_size, job.answer
    pending: deque[tuple[Sequence[int], Any]] = deque()

    def finish() -> None:
        ids, outputs = pending.popleft()
        respond(ids, pack(sut.to_host(outputs), keys))

    def issue(ids: Sequence[int], indices: Sequence[int]) -> None:
        for start in range(0, len(ids), size):
            pending.append((ids[start : start + size], sut.predict(qsl.batch(indices[start : start + size], size))))
            if len(pending) >= sut.in_flight:
                finish()
        while pending:
            finish()

    return issue, lambda: None


def drive(issue: Callable[..., None], indices: Sequence[int]) -> None:
    """Issue as LoadGen would: one query."""
    issue(list(range(len(indices))), indices)
