"""SingleStream: each query is one sample. MultiStream: each is eight samples, which are one batch.
They are answered in the issuing thread, because a hand-over to another thread costs 20 µs.
"""

from __future__ import annotations

from formats.job import Calibration, Job, Settings
from scenarios.worker.queries.answers import Ids, Indices
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.queries.streaming import Callbacks, Responder, answering
from scenarios.worker.watch import Watch
from sut.contract import Inference

# LoadGen prepares queries for 2 × min_duration at target_latency. A SUT that answers all of them
# earlier ends INVALID. With a target of half the calibrated latency, the SUT may be four times as
# fast as while calibrating, for example if the machine was busy then. That costs 300 bytes a query.
# With equal issue the prepared count becomes the *required* count (test_settings_internal.cc), so a
# larger target saves time.
_TARGET = 0.5
_TARGET_EQUAL_ISSUE = 1.6
# LoadGen's early stopping needs at least so many queries to estimate the 90th percentile, and so
# many for the 99th, that of MultiStream (MLPerf inference rules, "Early Stopping").
_LEAST_QUERIES = 64
_LEAST_OF_MANY = 662


def user_conf(job: Job, calibration: Calibration, in_flight: int) -> Settings:
    """Return the settings that the scenario adds to user.conf."""
    limits = job.limits
    latency_ms = job.workload.batch_size * calibration["median_sample_ns"] / 1e6
    if not limits.quick:
        target = _TARGET_EQUAL_ISSUE if limits.equal_issue else _TARGET
        return {"target_latency": target * latency_ms}
    least = _LEAST_QUERIES if job.workload.batch_size == 1 else _LEAST_OF_MANY
    fits = least * latency_ms <= limits.longest_ms
    conf = {
        "target_latency": _TARGET * latency_ms,
        "min_query_count": least if fits else 1,
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
    respond: Responder,
    job: Job,
    watch: Watch,
) -> Callbacks:
    """The functions for LoadGen: (issue, flush). `watch.start` is not called, because the call
    would be measured with each query.
    """
    answer = answering(sut, respond, job.answer, watch)
    one = qsl.one

    def issue(ids: Ids, indices: Indices) -> None:
        answer(one(indices[0]), ids, indices)

    def issue_many(ids: Ids, indices: Indices) -> None:
        answer(qsl.batch(indices, len(ids)), ids, indices)

    return (issue if job.workload.batch_size == 1 else issue_many), lambda: None
