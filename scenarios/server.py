"""Server: requests arrive one by one as a Poisson process. They wait in a queue, and one thread
answers them in batches. Interactive is Server with tighter limits.
"""

from __future__ import annotations

from formats.job import Calibration, Job, Settings
from scenarios.worker.queries import engine
from scenarios.worker.queries.answers import Ids, Indices
from scenarios.worker.queries.batching import Batcher, Overload, Policy
from scenarios.worker.queries.engine import Flight
from scenarios.worker.queries.latency_limits import Limited
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.queries.streaming import Callbacks, Responder, answering
from scenarios.worker.rates.rate_search import least_requests
from scenarios.worker.replicas.dispatcher import Replicated
from scenarios.worker.watch import Watch
from sut.contract import Inference

_UNLIMITED_MS = 1e9
_PATIENCE = 100
_LEAST_PATIENCE_S = 60
"""A request may wait so many times its limit, and at least so many seconds. Then the test ends with
an overload.
"""


def user_conf(job: Job, calibration: Calibration, in_flight: int) -> Settings:
    """Return the settings that the scenario adds to user.conf."""
    assert job.percentile
    cell = job.cell
    conf = {"target_qps": calibration["rate"]}
    if cell.stream:  # LoadGen does not judge by the latency of whole answers then
        conf["ttft_latency"] = cell.max_ttft_ms or _UNLIMITED_MS
        conf["tpot_latency"] = cell.max_tpot_ms or _UNLIMITED_MS
    else:
        conf["target_latency"] = cell.max_latency_ms or _UNLIMITED_MS
    if job.limits.quick:
        conf["min_duration"] = job.limits.planned_ms
        conf["min_query_count"] = least_requests(job)
        conf["target_latency_percentile"] = job.percentile
    return conf


def least(job: Job) -> str:
    """Return the least that a quick test needs, in words."""
    return f"{least_requests(job)} requests"


def policy(job: Job) -> Policy:
    """How the job's requests become batches."""
    cell = job.cell
    limits = (cell.max_latency_ms, cell.max_ttft_ms)
    limit_s = max(limit or 0 for limit in limits) / 1e3
    return Policy(
        sizes=job.batch_sizes,
        wait_ns=int((cell.max_wait_ms or 0) * 1e6),
        longest_wait_ns=int(max(_PATIENCE * limit_s, _LEAST_PATIENCE_S) * 1e9),
    )


def callbacks(
    sut: Inference,
    qsl: Qsl,
    respond: Responder,
    job: Job,
    watch: Watch,
) -> Callbacks:
    """The functions for LoadGen: (issue, flush). `flush` waits until all requests are answered, so
    that an error of the SUT ends the test. Else LoadGen would wait for ever.
    """
    limited = Limited(job.cell, respond)
    watch.limited = limited
    queue: Flight | Batcher[tuple[int, int]]
    if isinstance(sut, engine.EngineSut):
        most = sut.engine.most_in_flight
        flight = queue = engine.flight(sut, limited.responder, job.answer, watch, most)

        def put(request: tuple[int, int]) -> None:
            engine.submit(flight, qsl, *request)
    else:
        form = policy(job)
        answer = answering(sut, limited.responder, job.answer, watch)

        def answer_requests(requests: list[tuple[int, int]]) -> None:
            ids, indices = zip(*requests, strict=True)
            answer(qsl.batch(indices, form.size(len(ids))), ids, indices)

        queue = Batcher(answer_requests, form)
        put = queue.put
    watch.queue = queue

    def issue(ids: Ids, indices: Indices) -> None:
        limited.issue(ids)
        try:
            for request in zip(ids, indices, strict=True):
                put(request)
        except Overload as e:
            if isinstance(sut, Replicated):
                sut.fail(e)
            raise

    def flush() -> None:
        limited.last_issued()
        queue.drain()
        if isinstance(sut, Replicated):
            sut.drain()

    return issue, flush
