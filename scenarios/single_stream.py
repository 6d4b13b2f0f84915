"""SingleStream: each query is one sample. It is answered in the issuing thread, because a hand-over
to another thread costs 20 µs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from formats.job import Job
from scenarios.worker.answers import pack
from scenarios.worker.qsl import Qsl
from sut.contract import Inference

# LoadGen prepares queries for 2 × min_duration at target_latency. A SUT that answers all of them
# earlier ends INVALID. With a target of half the calibrated latency, the SUT may be four times as
# fast as while calibrating, for example if the machine was busy then. That costs 300 bytes a query.
# With equal issue the prepared count becomes the *required* count (test_settings_internal.cc), so a
# larger target saves time.
_TARGET = 0.5
_TARGET_EQUAL_ISSUE = 1.6
# LoadGen's early stopping needs at least this many queries to estimate the 90th percentile (MLPerf
# inference rules, "Early Stopping").
_LEAST_QUERIES = 64


def user_conf(job: Job, calibration: Mapping[str, float], in_flight: int) -> dict[str, float]:
    """Return the settings that the scenario adds to user.conf."""
    limits = job.limits
    latency_ms = calibration["median_sample_ns"] / 1e6
    if not limits.quick:
        target = _TARGET_EQUAL_ISSUE if limits.equal_issue else _TARGET
        return {"target_latency": target * latency_ms}
    fits = _LEAST_QUERIES * latency_ms <= limits.longest_ms
    conf = {
        "target_latency": _TARGET * latency_ms,
        "min_query_count": _LEAST_QUERIES if fits else 1,
    }
    if not limits.equal_issue:
        conf["min_duration"] = limits.planned_ms
    # Under equal issue the prepared count is required. It gives the planned length: 2 × a quarter
    # of it at half the latency.
    return conf


def least(job: Job) -> str:
    """Return the least that a quick test needs, in words."""
    return "one query"


def callbacks(
    sut: Inference,
    qsl: Qsl,
    respond: Callable[..., None],
    job: Job,
    started: Callable[[], None] = lambda: None,
) -> tuple[Callable[..., None], Callable[[], None]]:
    """The functions for LoadGen: (issue, flush). `started` is not called, because the call would be
    measured with each query.
    """
    keys = job.answer

    def issue(ids: Sequence[int], indices: Sequence[int]) -> None:
        outputs = sut.predict(qsl.one(indices[0]))
        answers = pack(sut.to_host(outputs), keys)
        respond(ids, answers, indices)

    return issue, lambda: None


def drive(issue: Callable[..., None], indices: Sequence[int]) -> None:
    """Issue one query after the other, as LoadGen would."""
    for index in indices:
        issue([0], [index])
