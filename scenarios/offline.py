"""Offline: all samples come in one query and are answered in batches of batch_size. `in_flight`
batches are submitted at a time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from formats.job import ACCURACY, Calibration, Job, Settings
from scenarios.worker.queries import engine, length_buckets
from scenarios.worker.queries.answers import Ids, Indices, pack
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.queries.streaming import Callbacks, Responder, answering
from scenarios.worker.rates import saturation
from scenarios.worker.replicas.dispatcher import Replicated
from scenarios.worker.watch import Watch
from sut.contract import Inference

LEAST_BATCHES = 3
"""The least batches of a quick test."""
# A round's test may take this many times as long to have whole batches. If it would take longer,
# its last batch is padded.
_LONGER = 1.1


def user_conf(job: Job, calibration: Calibration, in_flight: int) -> Settings:
    """Return the settings that the scenario adds to user.conf.

    LoadGen issues max(min_query_count, 1.1 × min_duration × target_qps) samples
    (test_settings_internal.cc) for any batch size. A padded batch costs as much as a full one and
    has fewer samples. So this function raises min_query_count to whole batches.
    """
    rate = job.limits.rate_margin * 1e9 / calibration["fastest_sample_ns"]
    sample_ns = calibration["median_sample_ns"]
    rounds = 0
    if engine.is_engine(job):
        in_flight = int(calibration["in_flight"])
        answered = calibration["longest_ns"] / sample_ns  # while the longest answer is computed
        rounds = math.ceil(saturation.LEAST_ROUNDS * max(in_flight, answered))
    return {
        "target_qps": rate,
        "min_query_count": _samples(job, rate, sample_ns, in_flight, rounds),
    }


def _samples(job: Job, rate: float, sample_ns: float, in_flight: int, least: int) -> int:
    """The number of samples: whole batches, in multiples of the batches that the SUT keeps in
    flight. Under equal issue they are also whole passes over the data set.
    """
    limits = job.limits
    batch = job.workload.batch_size
    one_pass = limits.performance_sample_count if limits.equal_issue else 1
    least = max(
        least,
        limits.min_query_count,
        math.ceil(1.1e-3 * limits.min_duration_ms * rate),
        math.ceil(limits.planned_ms * 1e6 / sample_ns),
    )
    units = [math.lcm(batch * in_flight, one_pass), math.lcm(batch, one_pass)]
    if limits.quick:
        least = max(least, LEAST_BATCHES * batch * max(1, len(job.places)))
        longest = limits.longest_ms * 1e6 / sample_ns
    else:
        units.append(one_pass)
        longest = _LONGER * _up(least, one_pass)
    counts = [_up(least, unit) for unit in units]
    return next((count for count in counts if count <= longest), counts[-1])


def _up(count: int, unit: int) -> int:
    """Round up to a multiple of `unit`."""
    return -(-count // unit) * unit


def least(job: Job) -> str:
    """Return the least that a quick test needs, in words."""
    if engine.is_engine(job):
        return f"{saturation.LEAST_ROUNDS} times what saturates the engine"
    batches = f"{LEAST_BATCHES} whole batches of {job.workload.batch_size}"
    return f"{batches} for each replica" if len(job.places) > 1 else batches


def callbacks(
    sut: Inference,
    qsl: Qsl,
    respond: Responder,
    job: Job,
    watch: Watch,
) -> Callbacks:
    """The functions for LoadGen: (issue, flush). `watch` is started when the query comes in, before
    its first batch.
    """
    size = job.workload.batch_size
    keys = job.answer
    if isinstance(sut, engine.EngineSut):
        return _saturated(sut, qsl, respond, keys, watch), lambda: None
    if isinstance(sut, Replicated):
        return _pulled(sut, qsl, respond, job, watch), lambda: None
    answer = answering(sut, respond, keys, watch)
    buckets = job.length_buckets
    tokens = length_buckets.lengths(qsl.arrays) if buckets else None
    pending: deque[tuple[Ids, Indices, Any]] = deque()

    def finish() -> None:
        ids, indices, outputs = pending.popleft()
        respond.complete(ids, pack(sut.to_host(outputs), keys), indices)

    def issue(ids: Ids, indices: Indices) -> None:
        watch.start()
        if tokens is not None:
            one_pass = job.limits.performance_sample_count
            ids, indices = length_buckets.by_length(ids, indices, tokens, one_pass)
        slots = qsl.slots(indices)
        for start in range(0, len(ids), size):
            end = start + size
            batch = qsl.one(indices[start]) if size == 1 else qsl.gather(slots[start:end], size)
            if tokens is not None:
                longest = int(tokens[indices[start:end]].max())
                batch = length_buckets.cut(batch, longest, buckets)
            if job.stream:
                answer(batch, ids[start:end], indices[start:end])
                continue
            pending.append((ids[start:end], indices[start:end], sut.predict(batch)))
            if len(pending) >= sut.in_flight:
                finish()
        while pending:
            finish()

    return issue, lambda: None


def _saturated(
    sut: Any, qsl: Qsl, respond: Responder, keys: Sequence[str], watch: Watch
) -> Callable[..., None]:
    """LoadGen's `issue` for an engine, of which as many samples are in flight as saturate it."""
    requests = engine.flight(sut, respond, keys, watch, sut.at_once)

    def issue(ids: Ids, indices: Indices) -> None:
        watch.start()
        engine.answer_all(requests, qsl, ids, indices)

    return issue


def _pulled(
    sut: Replicated, library: Any, respond: Responder, job: Job, watch: Watch
) -> Callable[..., None]:
    """LoadGen's `issue` for replicas: each batch goes to the replica that is free.

    The batches of an accuracy test go to them one by one, so that as many replicas as possible are
    judged.
    """
    size = job.workload.batch_size
    if job.test == ACCURACY:
        submit = sut.answering(respond, job.answer, watch)
    else:
        submit = sut.pulling(respond, watch)

    def issue(ids: Ids, indices: Indices) -> None:
        watch.start()
        for start in range(0, len(ids), size):
            end = start + size
            batch = library.batch(indices[start:end], size)
            submit(batch, ids[start:end], indices[start:end])
        sut.drain()

    return issue
