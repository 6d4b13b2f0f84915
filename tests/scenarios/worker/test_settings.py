"""Each setting that we write reaches LoadGen as the same number. Real LoadGen tests write their
logs, and the logged settings are compared with the job's.
"""

from dataclasses import replace

import numpy as np
import pytest

from compliance import rules
from compliance.checks.logs import effective_settings
from compliance.logs import read_detail
from compliance.logs.user_conf import parse, read, trap
from formats.figures import TOKEN_BYTES
from formats.job import Limits, Serving
from scenarios.table import SCENARIOS
from scenarios.worker import loadgen
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.watch import Watch
from tests.support import mock_job

RULES = rules.load()
CALIBRATION = {
    "fastest_sample_ns": 1_234_567.891,
    "median_sample_ns": 1_345_678.912,
    "rate": 1234.56789,
}
FAST = {"fastest_sample_ns": 1e-5, "median_sample_ns": 1e-5, "rate": 1e17}
SMALL = Limits(
    min_duration_ms=7, min_query_count=3, performance_sample_count=16, planned_ms=29, longest_ms=999
)
LARGE = Limits(
    min_duration_ms=21_600_001,
    min_query_count=10**15 + 1,
    performance_sample_count=16,
    planned_ms=86_400_001,
    longest_ms=10**9,
)
OFFICIAL = Limits(
    min_duration_ms=600_001,
    min_query_count=24_577,
    performance_sample_count=15,
    equal_issue=True,
)


def ran(folder, job, calibration):
    """Run a LoadGen test as the worker does. (the settings, LoadGen's log)."""
    conf = SCENARIOS[job.scenario].load().user_conf(job, calibration, 1)
    values = loadgen.settings(job, conf)
    loadgen.write_user_conf(job, values)
    loadgen.write_audit_config(job)
    respond = loadgen.responder(Heartbeat(folder / "beat"), Watch(), counts_tokens=job.stream)

    def issue(ids, indices):
        tokens = np.zeros((len(ids), 2), np.int32)
        if job.stream:
            respond.first(ids, tokens[:, :1].copy())
        respond.complete(ids, (tokens, [2 * TOKEN_BYTES] * len(ids)), indices)

    qsl = Qsl(job.inputs, lambda arrays: arrays)
    loadgen.run(job, values, qsl, issue, lambda: None, trace=False)
    log = read_detail(job.log_dir / "mlperf_log_detail.txt")
    assert not log.problems
    return values, log


def agree(job, values, log):
    """Assert that LoadGen's requested and effective settings are those of the job."""
    scenario = SCENARIOS[job.scenario].logged_as or job.scenario
    conf = parse((job.log_dir / "user.conf").read_text(encoding="utf-8"))
    for key, value in values.items():
        logged = log.get(RULES.user_conf[key].logged_as(scenario) or "")
        entry = conf.look_up(job.benchmark, scenario, key)
        if entry is None:  # a fraction of a millisecond, which user.conf cannot state
            assert not float(value).is_integer() and logged == round(value * 10**6), key
            continue
        expected = read(scenario, key, entry[1])
        exact = isinstance(expected, int)
        assert logged == (expected if exact else pytest.approx(expected, rel=1e-5)), key
        assert type(value)(entry[1]) == value and not trap(scenario, key, entry[1]), key
    faults = list(effective_settings.faults(log, scenario))
    assert not faults


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream", "MultiStream", "Server"])
@pytest.mark.parametrize("calibration", [CALIBRATION, FAST], ids=["odd", "fast"])
@pytest.mark.parametrize(
    "limits",
    [SMALL, LARGE, OFFICIAL, replace(LARGE, equal_issue=True)],
    ids=["small", "large", "official", "large, equal issue"],
)
def test_counts_and_durations_reach_loadgen_as_they_are(scenario, calibration, limits, tmp_path):
    each = SCENARIOS[scenario].samples_a_query or 1
    job = mock_job.make(tmp_path, scenario=scenario, test="accuracy", batch=each)
    serving = Serving(max_wait_ms=0, percentile=90, max_latency_ms=500)
    job = mock_job.changed(job, serving, limits=limits)
    values, log = ran(tmp_path, job, calibration)
    agree(job, values, log)
    assert log.get("requested_performance_sample_count_override") == limits.performance_sample_count
    least_ms = values["min_duration"]
    assert log.get("effective_min_duration_ms") == least_ms and type(least_ms) is int


LIMITS_MS = [None, 0.9, 3.7, 12.5, 1e-6, 123_456.789_012, 200.0, 2000, 1e9]


@pytest.mark.parametrize("scenario", ["Server", "Interactive"])
@pytest.mark.parametrize("limit_ms", LIMITS_MS[1:])
def test_the_limit_of_whole_answers_is_the_cells(scenario, limit_ms, tmp_path):
    job = mock_job.make(tmp_path, scenario=scenario)
    serving = Serving(max_wait_ms=0, percentile=90, max_latency_ms=limit_ms)
    job = mock_job.changed(job, serving, limits=SMALL)
    values, log = ran(tmp_path, job, CALIBRATION)
    agree(job, values, log)
    expected = round(limit_ms * 1e6)
    assert log.get("requested_server_target_latency_ns") == expected
    assert log.get("effective_target_latency_ns") == expected


@pytest.mark.parametrize("scenario", ["Server", "Interactive"])
@pytest.mark.parametrize(
    ("ttft_ms", "tpot_ms"), list(zip(LIMITS_MS, reversed(LIMITS_MS), strict=True))
)
def test_the_limits_of_tokens_are_the_cells(scenario, ttft_ms, tpot_ms, tmp_path):
    job = mock_job.make(tmp_path, scenario=scenario)
    serving = Serving(max_wait_ms=0, percentile=90, max_ttft_ms=ttft_ms, max_tpot_ms=tpot_ms)
    job = mock_job.changed(job, serving, limits=SMALL, stream=True)
    values, log = ran(tmp_path, job, CALIBRATION)
    agree(job, values, log)
    for name, limit_ms in (("ttft", ttft_ms), ("tpot", tpot_ms)):
        expected = 10**15 if limit_ms is None else round(limit_ms * 1e6)
        assert log.get(f"requested_server_{name}_latency") == expected


@pytest.mark.parametrize("name", sorted(RULES.compliance_tests))
def test_the_settings_of_audit_config_reach_loadgen_as_they_are(name, tmp_path):
    settings = RULES.compliance_tests[name].settings(None)
    job = mock_job.make(tmp_path, scenario="SingleStream", batch=1)
    _, log = ran(tmp_path, replace(job, limits=SMALL, audit=settings), CALIBRATION)
    assert settings.pop("mode") == 2 and log.get("requested_test_mode") == "PerformanceOnly"
    for key, value in settings.items():
        assert log.get(RULES.user_conf[key].logged_as("SingleStream")) == value, key
