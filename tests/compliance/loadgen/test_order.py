"""The order of samples is LoadGen's own: real LoadGen runs of many sizes against what
compliance.loadgen makes of the seeds.
"""

import numpy as np
import pytest

from compliance import logs, rules
from compliance.loadgen import sample_order as order
from compliance.loadgen.log import Log
from compliance.loadgen.random import Draws
from compliance.logs import trace
from tests.support.mutations import ANSWERS, DETAIL
from tests.support.other_scenarios import Kind, measure


def measured(folder, scenario, mode, total, loaded, equal):
    qps = 100_000 if mode == "AccuracyOnly" else 1000  # Server waits for its schedule there too
    rate = {"target_qps": qps} if scenario in ("Offline", "Server") else {"target_latency": 1}
    settings = {"min_query_count": 300, "sample_concatenate_permutation": int(equal)}
    conf = {"min_duration": 100, **settings, **rate}
    measure(folder, Kind(scenario, scenario, conf, 0.0, total=total, loaded=loaded), mode, {})
    return logs.read_detail(folder / DETAIL)


def log_of(detail, scenario):
    return Log.of(detail, scenario, rules.load())


def draws_of(detail, total, loaded, kept):
    """The one that makes the loaded sets; both do where the sizes are powers of two."""
    seed = rules.load().seeds["qsl_rng_seed"]
    sets = detail.all("loaded_qsl_set")
    each = log_of(detail, detail.get("effective_scenario")).per_query
    return next(
        draws
        for draws in Draws
        if order.loaded_sets(total, loaded, seed, draws, each)[:kept] == sets
    )


def settings_of(scenario, equal, detail):
    each = log_of(detail, scenario).per_query
    return order.IssueSettings(
        scenario=scenario,
        equal_issue=equal,
        seed=rules.load().seeds["sample_index_rng_seed"],
        per_query=each,
    )


@pytest.mark.parametrize("equal", [False, True], ids=["free", "equal issue"])
@pytest.mark.parametrize(("total", "loaded"), [(37, 20), (100, 100), (3, 2), (1, 1), (1021, 517)])
@pytest.mark.parametrize("scenario", ["Offline", "SingleStream", "MultiStream", "Server"])
def test_a_performance_test_takes_the_samples_the_seeds_say(
    tmp_path, scenario, total, loaded, equal
):
    detail = measured(tmp_path / "logs", scenario, "PerformanceOnly", total, loaded, equal)
    draws = draws_of(detail, loaded, loaded, 1)
    (loaded_set,) = detail.all("loaded_qsl_set")
    seen = trace.read(tmp_path / "logs" / "mlperf_log_trace.json")
    assert not seen.problems
    settings = settings_of(scenario, equal, detail)
    least = detail.get("effective_min_query_count")
    wanted = order.performance(
        settings, loaded_set, draws, count=len(seen.index), min_query_count=least
    )
    assert len(seen.index) >= 300
    assert wanted.tolist() == seen.index.tolist()


@pytest.mark.parametrize("equal", [False, True], ids=["free", "equal issue"])
@pytest.mark.parametrize(("total", "loaded"), [(37, 20), (100, 100), (1, 1), (70_000, 70_000)])
@pytest.mark.parametrize("scenario", ["Offline", "SingleStream", "MultiStream", "Server"])
def test_an_accuracy_test_takes_each_sample_once_in_the_order_of_the_seeds(
    tmp_path, scenario, total, loaded, equal
):
    detail = measured(tmp_path / "logs", scenario, "AccuracyOnly", total, loaded, equal)
    draws = draws_of(detail, total, loaded, None)
    answers = logs.read_accuracy(tmp_path / "logs" / ANSWERS)
    settings = settings_of(scenario, equal, detail)
    wanted = order.accuracy(settings, detail.all("loaded_qsl_set"), draws)
    assert sorted(set(answers.indices)) == list(range(total))
    each = settings.per_query
    log = log_of(detail, scenario)
    whole = [log.once(one) for one in detail.all("loaded_qsl_set")]
    assert len(answers.indices) == sum(-(-len(one) // each) * each for one in whole)
    assert wanted[np.array(answers.seq_ids)].tolist() == list(answers.indices)


def test_the_wheel_draws_in_one_way_only(tmp_path):
    detail = measured(tmp_path / "logs", "Offline", "AccuracyOnly", 1021, 1021, False)
    (loaded_set,) = detail.all("loaded_qsl_set")
    seed = rules.load().seeds["qsl_rng_seed"]
    found = [order.loaded_sets(1021, 1021, seed, draws)[0] == loaded_set for draws in Draws]
    assert found.count(True) == 1


def test_a_loadgen_that_was_built_with_libcxx_has_its_own_order():
    """The first indices of the loaded set of a published result of v5.1, measured on macOS."""
    seed = rules.load("v5.1").seeds["qsl_rng_seed"]
    (first, *_) = order.loaded_sets(50_000, 1024, seed, Draws.MASK)
    assert first[:5].tolist() == [48336, 14652, 6037, 8911, 32278]
