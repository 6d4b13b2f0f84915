"""How many requests saturate an engine, decided on engines whose time is only arithmetic."""

import heapq
import math
from dataclasses import replace

import numpy as np
import pytest

from formats.frameworks import ENGINE
from formats.job import Limits
from scenarios import offline, table
from scenarios.worker.preflight import Refused
from scenarios.worker.rates import saturation
from tests.support import mock_job

ANSWER_S = 1.0
MOST = 4096


class Slots:
    """An engine with so many slots, each of which answers one request in a second. The others wait
    in the order in which they came.
    """

    def __init__(self, slots, answer_s=ANSWER_S):
        self.slots, self.answer_s = slots, answer_s
        self.levels = []

    def ended_s(self, in_flight, samples):
        """(when each request was answered, the longest latency), if each answer makes room for the
        next request.
        """
        free = [0.0] * min(self.slots, in_flight)
        ended = []
        longest = 0.0
        for number in range(samples):
            sent = ended[number - in_flight] if number >= in_flight else 0.0
            ended.append(max(sent, heapq.heappop(free)) + self.answer_s)
            heapq.heappush(free, ended[-1])
            longest = max(longest, ended[-1] - sent)
        return ended, longest

    def __call__(self, in_flight, samples):
        self.levels.append(in_flight)
        ended, longest = self.ended_s(in_flight, samples)
        return saturation.Level(
            in_flight=in_flight,
            ended_ns=np.array(ended) * 1e9,
            longest_ns=longest * 1e9,
            client_share=self.client_share(in_flight),
        )

    def client_share(self, in_flight):
        return 0.1


class Shared(Slots):
    """An engine that answers all requests at once, each more slowly the more there are: so many
    samples a second, or a second for each answer.
    """

    def ended_s(self, in_flight, samples):
        round_s = max(self.answer_s, in_flight / self.slots)
        ended = [(1 + number // in_flight) * round_s for number in range(samples)]
        return ended, round_s


class SlowClient(Slots):
    """A client that can send only 300 requests a second to an engine without a limit."""

    def client_share(self, in_flight):
        return min(1.0, in_flight / self.slots)


def found(engine, **changes):
    return saturation.find(engine, **{"most": MOST, "least_ns": 1e8, **changes})


@pytest.mark.parametrize(
    ("slots", "in_flight"), [(1, 1), (3, 4), (8, 8), (132, 128), (146, 256), (200, 256)]
)
@pytest.mark.parametrize("kind", [Slots, Shared])
def test_the_requests_in_flight_double_until_the_rate_stops_rising(kind, slots, in_flight):
    engine = kind(slots)
    level, longest_ns = found(engine)
    assert level.in_flight == in_flight
    assert level.rate == pytest.approx(slots, rel=0.1)
    assert longest_ns <= 2e9
    assert sorted(set(engine.levels)) == [2**n for n in range(in_flight.bit_length() + 1)]


def test_the_last_level_is_as_many_as_the_client_can_keep_in_flight():
    engine = Slots(4)
    level, _ = found(engine, most=6)
    assert (level.in_flight, max(engine.levels)) == (4, 6)
    for slots in (6, 10**6):
        with pytest.raises(Refused, match="not saturated by 6 requests .*can keep 6 "):
            found(Slots(slots), most=6)


def quick(job, duration_s):
    ms = int(1e3 * duration_s)
    limits = Limits(
        min_duration_ms=ms // 4,
        min_query_count=1,
        performance_sample_count=mock_job.SAMPLES,
        equal_issue=True,
        planned_ms=ms,
        longest_ms=10 * ms,
    )
    return mock_job.changed(job, limits=limits, execution=ENGINE, batch_size=1)


@pytest.mark.parametrize("kind", [Slots, Shared])
@pytest.mark.parametrize("slots", [1, 8, 139, 200])
def test_a_figure_is_that_of_a_saturated_engine_at_each_duration(tmp_path, kind, slots):
    engine = kind(slots)
    level, longest_ns = found(engine)
    job = mock_job.make(tmp_path)
    for duration_s in (2, 5, 20):
        calibration = {**level.calibration, "longest_ns": longest_ns}
        conf = offline.user_conf(quick(job, duration_s), calibration, 1)
        conf |= {"min_duration": 250 * duration_s, "sample_concatenate_permutation": 1}
        samples = table.all_at_once(conf, mock_job.SAMPLES, 0).issued
        ended, _ = engine.ended_s(level.in_flight, samples)
        assert max(ended) >= max(duration_s, 11)
        assert samples / max(ended) == pytest.approx(slots, rel=0.1)


def test_an_engine_that_no_number_of_requests_saturates_has_no_figure():
    with pytest.raises(Refused, match=r"not saturated by 4,096 requests .*in_flight=N measures"):
        found(Slots(10**6))


def test_a_client_that_is_slower_than_the_engine_gives_no_figure():
    with pytest.raises(Refused, match="this client is saturated, and not the engine"):
        found(SlowClient(300))


def test_a_short_level_that_is_no_faster_is_measured_once_more():
    engine = Slots(8, answer_s=0.01)
    disturbed = [4]

    def run(in_flight, samples):
        level = engine(in_flight, samples)
        if in_flight in disturbed:
            disturbed.remove(in_flight)
            level = replace(level, ended_ns=level.ended_ns * 3)
        return level

    level, _ = found(run)
    assert (level.in_flight, disturbed) == (8, [])


def test_a_rate_that_the_user_gives_needs_no_saturated_engine():
    level, _ = found(Slots(10**6), enough=40.0)
    assert level.in_flight == 64


def test_answers_that_are_too_long_for_the_test_are_refused_after_the_first_one(tmp_path):
    engine = Slots(8, answer_s=5.0)
    job = quick(mock_job.make(tmp_path), 2)
    words = (
        "measures at least 12 times what saturates the engine, and whole passes over the 16"
        " prompts, which cost different amounts: 12 samples, about 60 s, and --duration 2 allows"
        " 20 s: give --duration 6.6"
    )
    with pytest.raises(Refused, match=words):
        found(engine, check=lambda longest_ns: saturation._check_longest(job, longest_ns))
    assert engine.levels == [1]


def test_a_rate_does_not_depend_on_where_the_last_round_is_cut_off():
    rates = [Slots(200)(256, samples).rate for samples in range(600, 1200, 50)]
    assert min(rates) > 0.93 * 200
    assert max(rates) < 1.07 * 200
    assert math.isclose(Slots(1)(1, 1).rate, 1 / ANSWER_S)


def test_the_busy_time_of_this_process_grows_while_it_computes():
    before = saturation.busy_ns()
    while saturation.busy_ns() == before:
        sum(range(10_000))
    assert saturation.busy_ns() > before


def test_a_thread_that_has_ended_does_not_change_how_the_busy_time_is_measured(
    tmp_path, monkeypatch
):
    for thread in ("1", "2"):
        (tmp_path / thread).mkdir()
    (tmp_path / "1/schedstat").write_text("30 4 9")
    (tmp_path / "2/schedstat").mkdir()  # it cannot be read
    monkeypatch.setattr(saturation, "_TASKS", tmp_path)
    assert saturation.busy_ns() == 34
