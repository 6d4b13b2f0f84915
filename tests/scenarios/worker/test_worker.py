"""Real workers, the real LoadGen, the mock SUT."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from compliance import logs
from formats.writing import write_json
from harness.execution import process
from tests.support import mock_job

MS = dict.fromkeys(("fastest_sample_ns", "median_sample_ns", "slowest_batch_ns"), 1e6)
JUDGED = {"test": "accuracy", "calibration": MS}


def run(job):
    return process.run(job, sys.executable, {}, lambda beat: None)


def test_calibration_agrees_with_the_scripted_latency(tmp_path):
    outcome = run(mock_job.make(tmp_path, batch=4, latency_ms=4.0))
    # Two in flight: between half and the whole of 4 ms / 4.
    assert outcome.calibration["median_sample_ns"] > 0.4e6
    assert outcome.calibration["fastest_sample_ns"] <= outcome.calibration["median_sample_ns"]


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
def test_an_accuracy_test_logs_every_sample_once_with_its_own_answer(tmp_path, scenario):
    batch = 1 if scenario == "SingleStream" else 3
    job = mock_job.make(tmp_path, scenario=scenario, batch=batch, **JUDGED)
    assert run(job).status == "ok"
    payloads = logs.read_accuracy(job.log_dir / "mlperf_log_accuracy.json").payloads
    reference = mock_job.make(tmp_path / "reference", test="reference")
    assert run(reference).status == "ok"
    expected = np.load(reference.log_dir / "reference.npz")["logits"]
    assert sorted(payloads) == list(range(mock_job.SAMPLES))
    assert all(payloads[i] == expected[i].tobytes() for i in payloads)


def test_generated_rows_are_cut_to_their_own_count(tmp_path):
    reference = mock_job.make(tmp_path / "reference", test="reference", task="generate")
    assert run(reference).status == "ok"
    path = reference.log_dir / "reference.npz"
    job = mock_job.make(tmp_path, task="generate", batch=3, reference=path, **JUDGED)
    assert run(job).status == "ok"
    payloads = logs.read_accuracy(job.log_dir / "mlperf_log_accuracy.json").payloads
    counts = mock_job.arrays("generate", mock_job.SAMPLES, 0)["max_new_tokens"]
    with np.load(path) as expected:
        assert [len(payloads[i]) // 4 for i in range(len(counts))] == counts.tolist()
        assert all(payloads[i] == expected["tokens"][i, :n].tobytes() for i, n in enumerate(counts))
        # The mock's teacher-forced logits choose its own tokens.
        assert (expected["top_ids"][..., 0] == expected["tokens"]).all()
        np.testing.assert_array_equal(np.load(job.log_dir / "logits.npy"), expected["logits"])


def test_the_worker_imports_nothing_of_the_parents_side(tmp_path):
    job = mock_job.make(tmp_path, milliseconds=50)
    write_json(job.log_dir / "job.json", job)
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "scenarios.worker", str(os.getpid()), "1"],
        input=f"{job.log_dir / 'job.json'}\n",
        capture_output=True,
        text=True,
        check=True,
    )
    written = done.stderr + (job.log_dir / "worker.log").read_text()
    names = [line.split("|")[-1].strip() for line in written.splitlines() if "|" in line]
    parents = {"harness", "compliance", "rich", "scipy", "jsonschema", "psutil"}
    assert not (parents | {"torch", "jax", "keras"}) & {name.split(".")[0] for name in names}
    assert json.loads((job.log_dir / "outcome.json").read_text())["status"] == "ok"


@pytest.mark.parametrize("is_found", [False, True])
def test_only_the_audit_config_that_the_job_names_is_picked_up(tmp_path, is_found):
    """The worker's current directory is its log_dir."""
    job = mock_job.make(tmp_path, milliseconds=50)
    path = job.audit_config if is_found else job.log_dir / "audit.config"
    path.write_text("*.*.min_query_count = 77\n")
    assert run(job).status == "ok"
    text = (job.log_dir / "mlperf_log_detail.txt").read_text()
    assert ("Found Audit Config" in text) == is_found


def test_a_test_that_would_fill_the_memory_is_refused_before_it_starts(tmp_path):
    outcome = run(mock_job.make(tmp_path, milliseconds=10**11, latency_ms=0.0))
    assert outcome.status == "skipped"
    assert "preflight: LoadGen needs" in outcome.reason
    assert not (tmp_path / "raw/performance/mlperf_log_detail.txt").exists()


def test_a_sut_that_keeps_another_number_of_batches_in_flight_than_the_cell_names_is_unsupported(
    tmp_path,
):
    outcome = run(mock_job.make(tmp_path, milliseconds=50, in_flight="1"))
    assert outcome.status == "unsupported"
    assert outcome.reason == "--sut-option in_flight=1: for bert this SUT keeps 2: leave it out"
