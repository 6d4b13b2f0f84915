"""How many samples a test is measured on: LoadGen's own arithmetic, raised to whole batches and
whole passes.
"""

import dataclasses
import math

import pytest

from formats.job import Limits
from scenarios import offline, single_stream
from scenarios.worker import loadgen, preflight
from tests.support import mock_job

COUNT = 64


def job(tmp_path, batch=4, scenario="Offline", **limits):
    made = mock_job.make(tmp_path, batch=batch, scenario=scenario)
    return dataclasses.replace(
        made, limits=Limits(**({"min_duration_ms": 600_000, "min_query_count": 1} | limits))
    )


def quick(seconds, count=COUNT, **limits):
    planned_ms = int(seconds * 1e3)
    return {
        "min_duration_ms": planned_ms // 4,
        "performance_sample_count": count,
        "planned_ms": planned_ms,
        "longest_ms": 10 * planned_ms,
        **limits,
    }


def calibrated(sample_ms):
    times = dict.fromkeys(("fastest_sample_ns", "median_sample_ns"), sample_ms * 1e6)
    return {**times, "slowest_batch_ns": 0.0}


def planned(asked, sample_ms, in_flight=1):
    settings = loadgen.settings(asked, offline.user_conf(asked, calibrated(sample_ms), in_flight))
    return preflight.performance(asked, settings, sample_ms * 1e6)


@pytest.mark.parametrize("batch", [1, 3, 4, 7, 8, 32])
@pytest.mark.parametrize("in_flight", [1, 2])
def test_the_count_is_of_whole_batches_and_as_long_as_planned(tmp_path, batch, in_flight):
    found = planned(job(tmp_path, batch, **quick(10)), 3.7, in_flight)
    assert found.samples % (batch * in_flight) == 0
    assert found.batches == found.samples // batch
    assert 10 <= found.seconds < 10 + 3.7e-3 * batch * in_flight


@pytest.mark.parametrize("batch", [1, 3, 4, 7, 8, 32])
def test_uneven_inputs_are_measured_in_whole_passes(tmp_path, batch):
    found = planned(job(tmp_path, batch, **quick(10, count=5, equal_issue=True)), 1.0)
    assert found.samples % math.lcm(batch, 5) == 0


@pytest.mark.parametrize(("seconds", "samples"), [(1, 32), (3, 32), (10, 48)])
def test_a_slow_batch_is_measured_three_times_at_least_and_in_whole_rounds(
    tmp_path, seconds, samples
):
    """Batches of 8 that take 4 s, two of them at a time: 4 samples a second."""
    assert planned(job(tmp_path, 8, **quick(seconds)), 250.0, in_flight=2).samples == samples


def test_what_a_quick_figure_needs_at_least_is_refused_where_it_takes_far_longer_than_asked(
    tmp_path,
):
    asked = job(tmp_path, 32, **quick(1, count=101, equal_issue=True))
    found = planned(asked, 300.0)
    with pytest.raises(preflight.Refused) as refused:
        preflight.check_time(found, asked, offline.least(asked))
    assert (
        str(refused.value)
        == "preflight: a quick Offline test measures at least 3 whole batches of 32, and whole"
        " passes over the 101 prompts, which cost different amounts: 3232 samples, about 970 s,"
        " and --duration 1 allows 10 s: give --duration 110"
    )
    enough = job(tmp_path / "b", 32, **quick(110, count=101, equal_issue=True))
    preflight.check_time(planned(enough, 300.0), enough, offline.least(enough))


def test_a_rounds_test_fills_its_last_batch_up_only_where_whole_ones_would_take_much_longer(
    tmp_path,
):
    official = {"performance_sample_count": 5000, "min_query_count": 24576, "equal_issue": True}
    # 35,000 would take 40 % longer.
    assert planned(job(tmp_path, 7, **official), 100.0).samples == 25_000
    whole = planned(job(tmp_path / "b", 8, **official), 100.0)
    assert (whole.samples, whole.batches) == (25_000, 3125)
    even = {"performance_sample_count": 10833, "min_query_count": 24576}
    assert planned(job(tmp_path / "c", 32, **even), 100.0).samples == 24_576
    assert planned(job(tmp_path / "d", 7, **even), 100.0).samples == 24_577


def test_loadgen_makes_no_more_samples_than_the_count_by_its_own_arithmetic(tmp_path):
    for sample_ms in (0.0123, 0.7, 3.3333):
        asked = job(tmp_path / str(sample_ms), 3, performance_sample_count=COUNT, rate_margin=1.15)
        conf = offline.user_conf(asked, calibrated(sample_ms), 1)
        enough = 1.1 * 600 * conf["target_qps"]
        assert int(enough) <= conf["min_query_count"] < enough + 4


def test_single_stream_takes_the_64_queries_of_early_stopping_where_they_fit(tmp_path):
    asked = job(tmp_path, 1, "SingleStream", **quick(1))
    assert single_stream.user_conf(asked, calibrated(100.0), 1)["min_query_count"] == 64
    # 12.8 s where 10 are allowed.
    assert single_stream.user_conf(asked, calibrated(200.0), 1)["min_query_count"] == 1
    even = loadgen.settings(asked, single_stream.user_conf(asked, calibrated(10.0), 1))
    assert even["min_duration"] == 1000


def test_single_stream_measures_uneven_prompts_in_whole_passes(tmp_path):
    asked = job(tmp_path, 1, "SingleStream", **quick(10, count=5, equal_issue=True))
    settings = loadgen.settings(asked, single_stream.user_conf(asked, calibrated(100.0), 1))
    found = preflight.performance(asked, settings, 100e6)
    assert (settings["min_duration"], found.samples) == (2500, 105)
