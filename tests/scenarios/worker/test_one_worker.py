"""One worker runs several LoadGen tests with the SUT that it loaded once."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compliance import logs
from harness.execution.process import Worker
from tests.support import mock_job

SETTINGS = """
import os, sys
import mlperf_loadgen as lg

def fields(settings):
    names = [name for name in dir(settings) if not name.startswith("_")]
    return {name: getattr(settings, name) for name in names if name != "FromConfig"}

path, model, scenario = sys.argv[1:]
ours, theirs = lg.TestSettings(), lg.TestSettings()
assert ours.FromConfig("", model, scenario, 0) == ours.FromConfig(path, model, scenario, 2) == 0
assert theirs.FromConfig(path, model, scenario) == 0
assert fields(ours) == fields(theirs), (fields(ours), fields(theirs))
assert fields(ours)["min_duration_ms"] == 5000 and fields(ours)["qsl_rng_seed"]
"""
SLOW = dict.fromkeys(("fastest_sample_ns", "median_sample_ns", "slowest_batch_ns"), 1e8)


def detail(job):
    return logs.read_detail(job.log_dir / "mlperf_log_detail.txt")


def errors(job):
    log = (job.log_dir / "mlperf_log_detail.txt").read_text()
    return [line for line in log.splitlines() if '"is_error": true' in line]


@pytest.fixture
def worker():
    with Worker(Path(sys.executable), {}) as worker:
        yield worker


def run(worker, job):
    job.log_dir.mkdir(parents=True, exist_ok=True)
    outcome = worker.run(job, lambda beat: None)
    assert outcome.status == "ok", outcome.reason
    return outcome


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
@pytest.mark.parametrize("model", ["bert-99", "llama3_1-8b", "stable-diffusion-xl", "mistral-tiny"])
def test_both_configurations_read_one_by_one_give_the_settings_of_from_config(
    tmp_path, model, scenario
):
    conf = tmp_path / "user.conf"
    conf.write_text(
        f"{model}.{scenario}.min_duration = 5000\n{model}.{scenario}.min_query_count = 77\n"
    )
    command = [sys.executable, "-c", SETTINGS, str(conf), model, scenario]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
def test_tests_follow_an_invalid_one_in_the_same_process(tmp_path, worker, scenario):
    first = mock_job.make(tmp_path, scenario=scenario, batch=1, milliseconds=200)
    short = replace(first, calibration=SLOW)
    outcomes = [run(worker, short)]
    jobs = [
        replace(first, log_dir=tmp_path / "raw" / "again"),
        replace(first, test="accuracy", log_dir=tmp_path / "raw" / "accuracy", calibration=SLOW),
    ]
    outcomes += [run(worker, job) for job in jobs]
    assert detail(short).get("result_validity") == "INVALID"
    assert detail(jobs[0]).get("result_validity") == "VALID"
    assert [errors(job) for job in jobs] == [[], []]
    assert [outcome.loaded_for for outcome in outcomes] == ["", "", "performance"]
    assert {outcome.load_ns for outcome in outcomes} == {outcomes[0].load_ns}
    effective = "effective_min_duration_ms"
    assert detail(jobs[0]).get(effective) == detail(jobs[1]).get(effective) == 200


def test_a_worker_that_was_killed_between_two_tests_is_started_again(tmp_path, worker):
    job = mock_job.make(tmp_path, milliseconds=50)
    run(worker, job)
    process = worker._process
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    outcome = run(worker, replace(job, test="accuracy", log_dir=tmp_path / "raw" / "accuracy"))
    assert outcome.loaded_for == ""


def test_after_a_failed_job_the_next_one_has_a_new_worker(tmp_path, worker):
    job = mock_job.make(tmp_path, milliseconds=50, raise_at=3)
    assert worker.run(job, lambda beat: None).status == "error"
    good = mock_job.make(tmp_path / "other", milliseconds=50)
    assert run(worker, good).loaded_for == ""


def test_each_job_has_a_log_of_its_own(tmp_path, worker):
    job = mock_job.make(tmp_path, milliseconds=50)
    run(worker, job)
    other = replace(job, procedure="none", log_dir=tmp_path / "raw" / "other")
    other.log_dir.mkdir()
    assert worker.run(other, lambda beat: None).status == "error"
    assert (job.log_dir / "worker.log").read_text() == ""
    assert "KeyError: 'none'" in (other.log_dir / "worker.log").read_text()
