"""The order of samples is LoadGen's own: real LoadGen runs of many sizes against what
compliance.loadgen makes of the seeds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from compliance import logs, rules
from compliance.loadgen import sample_order as order
from compliance.loadgen.log import Log
from compliance.loadgen.random import Draws
from compliance.logs import trace

RUN = """
import json, sys
import mlperf_loadgen as lg
folder, scenario, mode, total, loaded, queries, conf = json.loads(sys.argv[1])
settings = lg.TestSettings()
open(folder + "/user.conf", "w").write("".join(f"*.{scenario}.{key} = {value}\\n" for key, value in conf.items()))
assert settings.FromConfig(folder + "/user.conf", "any", scenario) == 0
settings.scenario, settings.mode = getattr(lg.TestScenario, scenario), getattr(lg.TestMode, mode)
log = lg.LogSettings()
log.log_output.outdir = folder
def issue(ids, indices):
    lg.QuerySamplesComplete([lg.QuerySampleResponse(i, 0, 0) for i in ids])
sut = lg.ConstructFastSUT(issue, lambda: None)
qsl = lg.ConstructQSL(total, loaded, lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, qsl, settings, log, folder + "/no-audit.config")
"""


def measured(
    folder: Path, scenario: str, mode: str, total: int, loaded: int, equal: bool, queries: int = 300
) -> logs.Detail:
    qps = 100_000 if mode == "AccuracyOnly" else 1000  # Server waits for its schedule there too
    rate = {"target_qps": qps} if scenario in ("Offline", "Server") else {"target_latency": 1}
    conf = {
        "min_duration": 100,
        "min_query_count": queries,
        "sample_concatenate_permutation": int(equal),
        **rate,
    }
    told = json.dumps([str(folder), scenario, mode, total, loaded, queries, conf])
    subprocess.run([sys.executable, "-c", RUN, told], check=True, timeout=60)
    return logs.read_detail(folder / "mlperf_log_detail.txt")


def log_of(detail: logs.Detail, scenario: str) -> Log:
    return Log.of(detail, scenario, rules.load())


def draws_of(detail: logs.Detail, total: int, loaded: int, kept: int | None) -> Draws:
    """The one that makes the loaded sets; both do where the sizes are powers of two."""
    seed = rules.load().seeds["qsl_rng_seed"]
    sets, each = (
        detail.all("loaded_qsl_set"),
        log_of(detail, detail.get("effective_scenario")).per_query,
    )
    return next(
        draws
        for draws in Draws
        if order.loaded_sets(total, loaded, seed, draws, each)[:kept] == sets
    )


def settings_of(scenario: str, equal: bool, detail: logs.Detail) -> order.IssueSettings:
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
    detail = measured(tmp_path, scenario, "PerformanceOnly", total, loaded, equal)
    draws = draws_of(detail, loaded, loaded, 1)
    (loaded_set,) = detail.all("loaded_qsl_set")
    seen = trace.read(tmp_path / "mlperf_log_trace.json")
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
    detail = measured(tmp_path, scenario, "AccuracyOnly", total, loaded, equal)
    draws = draws_of(detail, total, loaded, None)
    answers = logs.read_accuracy(tmp_path / "mlperf_log_accuracy.json")
    settings, each = (
        settings_of(scenario, equal, detail),
        log_of(detail, scenario).per_query,
    )
    wanted = order.accuracy(settings, detail.all("loaded_qsl_set"), draws)
    assert sorted(set(answers.indices)) == list(range(total))
    assert len(answers.indices) == sum(
        -(-len(log_of(detail, scenario).once(one)) // each) * each
        for one in detail.all("loaded_qsl_set")
    )
    assert wanted[np.array(answers.seq_ids)].tolist() == list(answers.indices)


def test_the_wheel_draws_in_one_way_only(tmp_path):
    detail = measured(tmp_path, "Offline", "AccuracyOnly", 1021, 1021, False)
    (loaded_set,) = detail.all("loaded_qsl_set")
    seed = rules.load().seeds["qsl_rng_seed"]
    assert [order.loaded_sets(1021, 1021, seed, draws)[0] == loaded_set for draws in Draws].count(
        True
    ) == 1


def test_a_loadgen_that_was_built_with_libcxx_has_its_own_order():
    """The first indices of the loaded set of a published result of v5.1, measured on macOS."""
    seed = rules.load("v5.1").seeds["qsl_rng_seed"]
    (first, *_) = order.loaded_sets(50_000, 1024, seed, Draws.MASK)
    assert first[:5].tolist() == [48336, 14652, 6037, 8911, 32278]
