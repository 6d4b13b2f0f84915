"""The search of the highest rate, against LoadGen's own arithmetic and a scripted queue."""

import time

import numpy as np
import pytest

from compliance import rules
from compliance.loadgen import early_stopping, schedule
from formats.frameworks import ENGINE
from formats.job import Limits, Serving
from scenarios import server
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.preflight import Refused
from scenarios.worker.queries import batching, streaming
from scenarios.worker.queries.latency_limits import Limited
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.rates import rate_search
from sut import mock
from tests.support import mock_job

SEED = 16159082839903944936
NOBODY = rate_search._NOBODY


@pytest.mark.parametrize("rate", [0.37, 12.0, 4321.0])
def test_requests_arrive_when_loadgen_would_issue_them(rate):
    demand = schedule.Demand(500, 1, 1)
    expected = schedule.server(demand, rate, SEED)
    assert rate_search.arrivals(rate, 500, SEED).tolist() == expected[:500].tolist()


@pytest.mark.parametrize("percentile", [0.9, 0.99])
@pytest.mark.parametrize("requests", [10, 44, 64, 459, 662, 2000])
def test_as_many_may_be_over_as_early_stopping_allows(requests, percentile):
    allowed = rate_search.allowed(requests, percentile)
    of_round = rules.load()
    assert not early_stopping.enough(requests, allowed + 1, percentile, of_round)
    if allowed >= 0:
        assert early_stopping.enough(requests, allowed, percentile, of_round)


def test_each_limit_is_counted_as_loadgen_counts_it():
    policy = Serving(max_wait_ms=0, percentile=90, max_ttft_ms=1e-6, max_tpot_ms=1e6)
    limited = Limited(policy, NOBODY)
    limited.due.update({1: 0, 2: 0})
    limited.issue([1, 2])
    assert limited.late() == 2
    limited.due[3] = time.perf_counter_ns() + 10**12
    limited.issue([3])
    assert limited.late() == 2
    del limited.due[3]
    limited.responder.first((1, 2), np.zeros((2, 1), np.int32))
    assert limited.late() == 0
    limited.responder.complete((1, 2), (np.zeros((2, 4), np.int32), [16, 16]), (0, 0))
    assert limited.over == {"latency": 0, "ttft": 2, "tpot": 0}
    assert (limited.bad, limited.answered, limited.due) == (2, 2, {})


def found(tmp_path, seconds=0.5, options=None, **serving):
    options = options or {}
    made = mock_job.make(tmp_path, scenario="Server", batch=1, latency_ms=2.0, **options)
    limits = Limits(
        min_duration_ms=1,
        min_query_count=1,
        performance_sample_count=mock_job.SAMPLES,
        planned_ms=int(seconds * 1e3),
    )
    policy = Serving(max_wait_ms=0, percentile=90.0, **serving)
    job = mock_job.changed(made, policy, batch_sizes=(1,), limits=limits)
    sut = mock.load(job.workload)
    if serving.get("max_tpot_ms"):
        sut = streaming.Streamed(sut, ())
    qsl = Qsl(job.inputs, sut.prepare)
    qsl.load(range(qsl.count))
    beat = Heartbeat(tmp_path / "heartbeat")

    def begin(respond, watch):
        return server.callbacks(sut, qsl, respond, job, watch)

    return rate_search.find(begin, qsl.count, job, 500.0, SEED, beat)


def test_the_search_ends_below_the_capacity_and_tells_its_trials(tmp_path):
    rate, trials = found(tmp_path, max_latency_ms=1000)
    passed = [trial.rate for trial in trials if trial.passed]
    failed = [trial.rate for trial in trials if not trial.passed]
    assert rate == max(passed) <= 500
    assert rate < min(failed)
    # The search ends when a rate just above the found one has failed, or its trials are used up.
    close = min(failed) <= rate_search._CLOSE * rate
    assert close or len(trials) == rate_search.MOST_TRIALS
    assert len(trials) <= rate_search.MOST_TRIALS


def test_a_limit_that_no_request_can_meet_is_told_at_once(tmp_path):
    with pytest.raises(Refused, match="even a request that arrives alone is over them"):
        found(tmp_path, max_latency_ms=1)


def test_no_rate_is_searched_if_the_time_per_token_of_its_limit_cannot_be_seen(tmp_path):
    options = {"task": "generate", "wrong": "at-once"}
    words = r"cannot be seen: 100% of .*, so no rate can be shown to be within --max-tpot-ms 50"
    with pytest.raises(Refused, match=words):
        found(tmp_path, options=options, max_ttft_ms=1000, max_tpot_ms=50)


def limited_of(answered, left=0):
    """100 or fewer requests in 10 s, none faster than a second: about ten are open at any time."""
    limited = Limited(Serving(max_wait_ms=0, percentile=90, max_latency_ms=1e6), NOBODY)
    limited.answered, limited.least_ns, limited._issued_ns = answered, 1e9, 10_000_000_000
    limited.left = left
    return limited


@pytest.mark.parametrize(
    ("left", "largest", "keeps_up"),
    [(4, 4, True), (24, 4, True), (30, 4, False), (30, 10, True)],
)
def test_a_sut_keeps_up_if_no_more_are_left_than_its_shortest_latency_explains(
    left, largest, keeps_up
):
    limited = limited_of(100, left=left)
    assert limited.kept_up(largest) is keeps_up


@pytest.mark.parametrize(("rate", "keeps_up"), [(8.3, True), (8.5, False)])
def test_no_rate_is_kept_up_with_that_is_above_that_of_full_batches(tmp_path, rate, keeps_up):
    job = mock_job.make(tmp_path, scenario="Server", batch=8)
    limited = limited_of(80)
    record = batching.Record()
    # Batches of a second, and a pause before the last one.
    for begun_s, waiting, taken in ((0, 0, 1), (1, 8, 8), (2, 9, 8), (3, 1, 8), (9, 0, 1)):
        record.begun_ns.append(begun_s * 10**9)
        record.waiting.append(waiting)
        record.taken.append(taken)
    assert batching.full_rate(record, 8) == 8
    assert rate_search.kept_up(limited, record, job, rate, 7.0) is keeps_up
    assert rate_search.kept_up(limited, record, job, rate, 9.0)


def test_a_test_has_ten_batches_at_least(tmp_path):
    job = mock_job.make(tmp_path, scenario="Server", batch=32)
    job = mock_job.changed(job, Serving(max_wait_ms=0, percentile=90.0))
    assert rate_search.least_requests(job) == 320


@pytest.mark.parametrize(("rate", "keeps_up"), [(8.3, True), (8.5, False)])
def test_an_engine_keeps_up_with_no_more_than_it_answered_or_when_saturated(
    tmp_path, rate, keeps_up
):
    job = mock_job.make(tmp_path, scenario="Server")
    job = mock_job.changed(job, execution=ENGINE, batch_size=1)
    limited = limited_of(85, left=5)
    record = batching.Record()
    assert rate_search.kept_up(limited, record, job, rate, 7.0) is keeps_up
    assert rate_search.kept_up(limited, record, job, rate, 9.0)
