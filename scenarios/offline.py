"""Offline: all samples in one query; batches of batch_size, `in_flight` of them submitted ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from scenarios.answers import pack
from scenarios.job import Job, Limits
from scenarios.qsl import Qsl
from sut.contract import Inference


def user_conf(limits: Limits, fastest_sample_ns: float, median_sample_ns: float) -> dict[str, float]:
    """LoadGen issues 1.1 × min_duration × target_qps samples: a tenth more than a steady SUT needs, and `rate_margin` on top."""
    return {"target_qps": limits.rate_margin * 1e9 / fastest_sample_ns}


def callbacks(sut: Inference, qsl: Qsl, respond: Callable[..., None], job: Job) -> tuple[Callable[..., None], Callable[[], None]]:
    size, keys = job.workload.batch_size, job.answer
    pending: deque[tuple[Sequence[int], Any]] = deque()

    def finish() -> None:
        ids, outputs = pending.popleft()
        respond(ids, pack(sut.to_host(outputs), keys))

    def issue(ids: Sequence[int], indices: Sequence[int]) -> None:
        slots = qsl.slots(indices)
        for start in range(0, len(ids), size):
            batch = qsl.one(indices[start]) if size == 1 else qsl.gather(slots[start : start + size], size)
            pending.append((ids[start : start + size], sut.predict(batch)))
            if len(pending) >= sut.in_flight:
                finish()
        while pending:
            finish()

    return issue, lambda: None


def drive(issue: Callable[..., None], indices: Sequence[int]) -> None:
    """Issue as LoadGen would: one query."""
    issue(list(range(len(indices))), indices)
