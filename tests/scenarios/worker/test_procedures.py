"""A job names what its worker does; a procedure is an entry of one table."""

from dataclasses import replace

from scenarios.worker import __main__ as worker
from scenarios.worker import heartbeat, procedures
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.watching import evidence, fresh_inputs
from tests.support import mock_job


def count_batches(job, sut, beat, slowest_ns):
    """A procedure of three lines: it answers one batch and says how many samples that were."""
    ids = mock_job.arrays("predict", 4, 0)["input_ids"]
    sut.to_host(sut.predict({"input_ids": ids, "attention_mask": 1}))
    return {"answered": {"samples": 4}, "test_ns": int(slowest_ns)}


def test_a_procedure_gets_a_loaded_and_warm_sut_and_tells_fields_of_the_outcome(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(procedures.PROCEDURES, "count", count_batches)
    job = replace(mock_job.make(tmp_path), procedure="count", test="count")
    outcome, _ = worker.measure(job, Heartbeat(tmp_path / "heartbeat"))
    assert (outcome.status, outcome.answered) == ("ok", {"samples": 4})
    assert outcome.test_ns == max(w["second_ns"] for w in outcome.warmup) > 0
    assert not (job.log_dir / "mlperf_log_detail.txt").exists()


def test_an_accuracy_test_is_planned_by_the_answers_of_the_performance_test(tmp_path):
    beat = Heartbeat(tmp_path / "heartbeat")
    timed, loaded = worker.measure(mock_job.make(tmp_path / "timed"), beat)
    assert timed.calibration["answer_bytes"] == 8  # two logits
    calls = loaded.sut.calls
    plans = []
    for answer_bytes in (8, 1008):
        calibration = {**timed.calibration, "answer_bytes": answer_bytes}
        folder = tmp_path / str(answer_bytes)
        job = mock_job.make(folder, test="accuracy", calibration=calibration)
        plans.append(worker.measure(job, beat, loaded)[0].plan)
    few, more = plans
    assert loaded.sut.calls - calls == 2 * few.batches
    assert more.log_bytes - few.log_bytes == 2 * 1000 * few.samples


def test_each_batch_after_the_test_may_block_for_ten_batches_and_a_minute(tmp_path, monkeypatch):
    path = tmp_path / "heartbeat"
    seen = set()

    def noted(module, name):
        function = getattr(module, name)

        def call(*arguments):
            beat = heartbeat.read(path)
            seen.add((beat.phase, beat.limit_s))
            return function(*arguments)

        monkeypatch.setattr(module, name, call)

    noted(evidence, "answer")
    noted(fresh_inputs, "timed")
    slow = {"fastest_sample_ns": 1e6, "median_sample_ns": 1e6, "slowest_batch_ns": 30e9}
    job = mock_job.make(tmp_path, calibration=slow)
    outcome, _ = worker.measure(replace(job, fresh=job.synthetic), Heartbeat(path))
    assert outcome.status == "ok"
    limit_s = 10 * 30 + 60
    # A profiled call of a SUT with two in flight has four batches at most, and shows no sign between.
    assert seen == {("evidence", 4 * limit_s), ("fresh inputs", limit_s)}
