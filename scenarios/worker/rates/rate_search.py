"""Finds the highest rate of requests at which the SUT is within the limits of Server.

Requests arrive as in LoadGen's Server, through the scenario's own callbacks, but no LoadGen test
runs. So a hopeless rate can be given up as soon as too many requests are over their limit. LoadGen
then judges the rate that was found.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from time import perf_counter_ns as _clock

import numpy as np

from formats.cell import Cell
from formats.figures import NOT_SEEN
from formats.job import Job
from formats.outcome import Trial
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.preflight import Refused
from scenarios.worker.queries import batching
from scenarios.worker.queries.engine import is_engine
from scenarios.worker.queries.latency_limits import Limited
from scenarios.worker.queries.streaming import Callbacks, Responder
from scenarios.worker.watch import Watch

LEAST_REQUESTS = {90.0: 64, 99.0: 662}
"""Percentile → the requests that LoadGen's early stopping needs if one of them is over its limit
(MLPerf inference rules, "Early Stopping").
"""
Begin = Callable[[Responder, Watch], Callbacks]
"""Return LoadGen's callbacks of Server, (issue, flush), with a new queue."""
MOST_TRIALS = 12
_CLOSE = 1.05
"""The search ends if the least rate that failed is so many times the highest that passed."""
_FEW_IN_ONE_PART = 0.5
_ALONE = 3
"""Requests that are answered one by one before the search."""
_START = 0.6
_CONFIDENCE = 0.99
_SEED = 20261126
_ALMOST_ALONE = 0.2
_OVER_CAPACITY = 1.25
"""If requests come so seldom that one in five waits for another, a lower rate helps no more. Rates
are tried up to so many times the capacity, because a calibration may be disturbed.
"""
LEAST_BATCHES = 10
"""The least batches of a test, in requests. In fewer a growing queue cannot be told from a full
batch.
"""
_BEYOND = 1.05
"""No SUT keeps up with so many times the rate of its full batches."""
_OFFICIAL_S = 60
"""The seconds of a trial if the test itself takes ten minutes."""

_GLANCE_NS = 50_000_000
"""How long a trial sleeps at most before it counts late requests again."""
_NOBODY = Responder(lambda ids, payload, indices: None, lambda ids, tokens: None)


def least_requests(job: Job) -> int:
    """The least requests of a test."""
    assert job.percentile
    batches = LEAST_BATCHES * job.workload.batch_size
    return max(LEAST_REQUESTS[job.percentile], batches)


def find(
    begin: Begin, count: int, job: Job, capacity: float, seed: int, beat: Heartbeat
) -> tuple[float, tuple[Trial, ...]]:
    """Return (the highest rate that passed, all trials). Raises Refused if no rate passes.

    Args:
        count: the number of samples. Each request is one of them, drawn at random.
        capacity: samples a second that the SUT answers if all are there at once.
        seed: LoadGen's seed of the schedule.
    """
    trials: list[Trial] = []
    alone_s = _alone_s(begin, job)
    expected = job.known.rate if job.known else None
    most = _OVER_CAPACITY * capacity
    low = 0.0
    high = math.inf
    rate = expected or _START * capacity
    while len(trials) < MOST_TRIALS:
        trial = _try(begin, job, beat, count, rate, capacity, number=len(trials), seed=seed)
        trials.append(trial)
        if trial.passed:
            low = rate
        else:
            high = rate
        if min(high, most) <= _CLOSE * low or (not low and rate * alone_s < _ALMOST_ALONE):
            break
        rate = min(_next(low, high, bool(expected)), most)
    if not low:
        lowest = trials[-1]
        raise Refused(
            f"no rate is within the limits ({_in_words(job.cell)}): at {lowest.rate:.3g} requests/s"
            f" {lowest.over} of {lowest.requests} were over them, and full batches reach"
            f" {capacity:.3g} requests/s: give a higher limit or a smaller --batch-size"
        )
    return low, tuple(trials)


def _alone_s(begin: Begin, job: Job) -> float:
    """Return the shortest latency of requests that arrive alone, in seconds. Raises Refused if all
    of them are over a limit: then no rate is within the limits.
    """
    watch = Watch()
    issue, flush = begin(_NOBODY, watch)
    limited = watch.limited
    assert limited

    def one_by_one() -> None:
        for number in range(_ALONE):
            issue([number], [0])
            flush()

    batching.answer_while(watch.queue, one_by_one)
    if max(limited.over.values()) == _ALONE:
        raise Refused(
            f"no rate is within the limits ({_in_words(job.cell)}): even a request that"
            " arrives alone is over them: give a higher limit"
        )
    check_seen(job.cell, watch)
    return limited.least_ns / 1e9


def check_seen(limits: Cell, watch: Watch) -> None:
    """Raises Refused if a limit is on the time per later token, and it cannot be seen in most of
    the few answers that arrived one by one.
    """
    share = watch.share_in_one_part
    if limits.max_tpot_ms is not None and share > _FEW_IN_ONE_PART:
        raise Refused(
            f"{NOT_SEEN.format(share=share)}, so no rate can be shown to be within --max-tpot-ms"
            f" {limits.max_tpot_ms:g}: let the SUT hand over each token, or leave that limit out"
        )


def _next(low: float, high: float, is_expected: bool) -> float:
    """The next rate to try. Near an expected rate small steps find both ends of the bracket.

    Args:
        low: the highest rate that passed; 0: none.
        high: the lowest rate that failed; infinite: none.
    """
    step = 1.1 if is_expected else 2.0
    if not low:
        return high / step
    if math.isinf(high):
        return low * step
    middle = math.sqrt(low * high)
    return min(middle, low * step)


def _in_words(cell: Cell) -> str:
    limits = {
        "--max-latency-ms": cell.max_latency_ms,
        "--max-ttft-ms": cell.max_ttft_ms,
        "--max-tpot-ms": cell.max_tpot_ms,
    }
    return " ".join(f"{flag} {limit:g}" for flag, limit in limits.items() if limit is not None)


def kept_up(
    limited: Limited, record: batching.Record, job: Job, rate: float, capacity: float
) -> bool:
    """Return whether the SUT kept up with `rate` requests a second, so that a longer test would not
    be another one.

    Args:
        limited: the requests of the finished test or trial.
        record: its batches.
        capacity: the requests a second of full batches in the calibration. Those of the test count
            instead if they are more, because a calibration may be disturbed.
    """
    largest = job.workload.batch_size
    # An engine forms its own batches, and its record has submissions.
    reached = limited.rate if is_engine(job) else batching.full_rate(record, largest)
    if reached and rate > _BEYOND * max(reached, capacity):
        return False
    return limited.kept_up(largest)


def _try(
    begin: Begin,
    job: Job,
    beat: Heartbeat,
    samples: int,
    rate: float,
    capacity: float,
    *,
    number: int,
    seed: int,
) -> Trial:
    """Issue requests at this rate until there are enough of them, or until too many are over their
    limit.
    """
    assert job.percentile
    length_s = job.limits.planned_ms / 1e3 or _OFFICIAL_S
    count = max(least_requests(job), math.ceil(rate * length_s))
    most_over = allowed(count, job.percentile / 100)
    due_ns = arrivals(rate, count, seed)
    indices = np.random.default_rng((_SEED, number)).integers(samples, size=count)
    watch = Watch()
    issue, flush = begin(_NOBODY, watch)
    limited = watch.limited
    queue = watch.queue
    assert limited and queue

    def requests() -> int:
        """Issue the requests. Return how many there were."""
        start = _clock()
        issued = 0
        while issued < count and limited.most_over() <= most_over:
            due = start + int(due_ns[issued])
            left_ns = due - _clock()
            if left_ns > 0:
                time.sleep(min(left_ns, _GLANCE_NS) / 1e9)
                beat.bump()
                continue
            limited.due[issued] = due
            issue([issued], [int(indices[issued])])
            issued += 1
            beat.bump()
        if issued == count:
            flush()
        return issued

    start = _clock()
    issued = batching.answer_while(queue, requests)
    over = limited.most_over()
    held = issued == count and kept_up(limited, queue.record, job, rate, capacity)
    passed = held and over <= most_over
    return Trial(rate, passed, issued, over, (_clock() - start) / 1e9)


def arrivals(rate: float, count: int, seed: int) -> np.ndarray:
    """Return when LoadGen's requests are due, in nanoseconds from the start, int64 [count].

    They are a Poisson process. LoadGen draws with `std::mt19937` and
    `std::exponential_distribution` (loadgen.cc, ScheduleDistribution), so a seed gives the same
    times here.
    """
    bits = np.random.MT19937()
    bits._legacy_seeding(seed & 0xFFFFFFFF)
    low, high = bits.random_raw((count, 2)).T.astype(float)
    uniform = (low + high * 2.0**32) / 2.0**64
    gaps_ns = (-np.log1p(-uniform) / rate * 1e9).astype(np.int64)
    return np.concatenate([[0], np.cumsum(gaps_ns[:-1])])


def allowed(requests: int, percentile: float) -> int:
    """Return how many requests may be over the limit so that LoadGen's early stopping calls the
    test VALID; -1 if there are too few requests.

    That is the largest t with P(Binomial(requests, 1 - percentile) ≤ t) ≤ 1 - confidence
    (loadgen/early_stopping.cc).
    """
    probability = 1.0
    total = 0.0
    count = -1
    log_choose = 0.0
    while count < requests:
        following = count + 1
        if following:
            log_choose += math.log((requests - count) / following)
        log_of = (
            log_choose
            + following * math.log(1 - percentile)
            + (requests - following) * math.log(percentile)
        )
        probability = math.exp(log_of)
        total += probability
        if total > 1 - _CONFIDENCE:
            break
        count = following
    return count
