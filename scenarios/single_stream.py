"""SingleStream: one sample a query, answered in the issuing thread (a hand-over to another one costs 20 µs)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scenarios.answers import pack
from scenarios.job import Job, Limits
from scenarios.qsl import Qsl
from sut.contract import Inference

# LoadGen prepares queries for 2 × min_duration at target_latency, and a SUT that answers them all earlier ends INVALID. A target of half
# the calibrated latency lets it be four times as fast as it was while calibrating, on a machine that was busy then, for 300 bytes a query.
# With equal issue the prepared count becomes the *required* count (test_settings_internal.cc), so a larger target saves time.
_TARGET, _TARGET_EQUAL_ISSUE = 0.5, 1.6


def user_conf(limits: Limits, fastest_sample_ns: float, median_sample_ns: float) -> dict[str, float]:
    return {"target_latency": (_TARGET_EQUAL_ISSUE if limits.equal_issue else _TARGET) * median_sample_ns / 1e6}


def callbacks(sut: Inference, qsl: Qsl, respond: Callable[..., None], job: Job) -> tuple[Callable[..., None], Callable[[], None]]:
    keys = job.answer

    def issue(ids: Sequence[int], indices: Sequence[int]) -> None:
        respond(ids, pack(sut.to_host(sut.predict(qsl.one(indices[0]))), keys))

    return issue, lambda: None


def drive(issue: Callable[..., None], indices: Sequence[int]) -> None:
    """Issue as LoadGen would: one query after the other."""
    for index in indices:
        issue([0], [index])
