"""A SUT whose shards are processes: its ranks make the same calls, and a lost one ends the test."""

import sys
import threading
import time
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import pytest

from formats.job import Place
from formats.writing import write_json
from harness.execution import process
from harness.execution.process import Worker
from scenarios.worker import rank
from scenarios.worker.failures import Reported
from scenarios.worker.ranks import processes
from scenarios.worker.ranks.processes import Ranks
from scenarios.worker.ranks.sharded import load
from scenarios.worker.replicas import link
from sut import mock
from tests.support import mock_job
from tests.support.processes import assert_all_end_with_the_worker, both_tests, gone, run

LOG_OF_RANK_1 = "rank-1.log"


def job_of(tmp_path, **options):
    job = mock_job.make(tmp_path, task="generate", shards=2, latency_ms=1.0, **options)
    write_json(job.log_dir / "job.json", job)
    return job


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Starts the ranks of a job, whose rank 0 is in this process."""
    monkeypatch.chdir(tmp_path)
    groups = []

    def start(**options):
        groups.append(Ranks(job_of(tmp_path, **options)))
        return groups[-1]

    yield start
    for group in groups:
        group.close()


class Waits(mock.Mock):
    """Waits in its calls, after some, for a rank that ends, as a collective operation does."""

    def __init__(self, workload, group, calls):
        super().__init__(workload)
        self.group = group
        self.left = calls

    def predict(self, batch):
        self.left -= 1
        if self.left < 0:
            while self.group._ranks[0].process.poll() is None:
                time.sleep(0.01)
            raise RuntimeError("Connection closed by peer")
        return super().predict(batch)


def batch(rows=4):
    return mock_job.arrays("generate", rows, 0)


def test_a_rank_makes_the_calls_of_rank_0_on_the_same_inputs(tmp_path, monkeypatch):
    calls = []

    class Recorder:
        def predict(self, batch):
            calls.append(("predict", batch["input_ids"].tolist()))

        def logits(self, tokens):
            calls.append(("logits", tokens.tolist()))

        def stream(self, batch, on_step):
            steps = 1
            while on_step(None):
                steps += 1
            calls.append(("stream", steps))

        def held(self):
            return {"device": "a device", "bytes": 7}

    def load_recorder(workload):
        calls.append(("load", workload.rank, workload.meeting))
        return Recorder()

    monkeypatch.setattr(rank, "loader", lambda *_: load_recorder)
    monkeypatch.chdir(tmp_path)
    ours, theirs = Pipe()
    following = threading.Thread(target=rank.follow, args=(theirs, job_of(tmp_path), 3))
    following.start()
    link.send(ours, {"do": "load"})
    assert link.receive(ours).header == {}
    link.send(ours, {"do": "predict"}, {"input_ids": np.array([[1, 2]])})
    link.send(ours, {"do": "logits"}, {"tokens": np.array([[3]])})
    link.send(ours, {"do": "stream"}, {"input_ids": np.array([[1]])})
    for goes_on in (True, True, False):
        link.send(ours, {"goes_on": goes_on})
    link.send(ours, {"do": "held"})
    assert link.receive(ours).header["bytes"] == 7
    ours.close()
    following.join(5)
    assert not following.is_alive()
    made = [("predict", [[1, 2]]), ("logits", [[3]]), ("stream", 3)]
    assert calls == [("load", 3, tmp_path / "meeting"), *made]


def test_both_tests_of_a_cell_show_the_parts_of_all_ranks(tmp_path):
    job = job_of(tmp_path, milliseconds=200)
    for outcome in both_tests(job):
        assert outcome.evidence_after.detail["shards"] == [
            {"device": "mock 0", "bytes": 1 << 19},
            {"device": "mock 1", "bytes": 1 << 19},
        ]
    assert gone(job.log_dir)


def test_streamed_answers_are_those_of_one_process(started):
    group = started()
    sharded = load(group, mock.load)
    steps = []

    def on_step(tokens):
        steps.append(tokens)
        return len(steps) < 3

    sharded.stream(batch(), on_step)
    whole, _ = sharded.predict(batch())
    assert np.array_equal(np.stack(steps, 1), whole["tokens"][:, :3])
    assert sharded.evidence(lambda: None).detail["shards"][1]["device"] == "mock 1"
    assert group.peak_host_bytes > 1 << 20


def test_a_killed_rank_ends_the_call_with_a_reason(started):
    group = started()
    sharded = load(group, lambda workload: Waits(workload, group, calls=1))
    sharded.predict(batch())
    threading.Timer(0.2, group._ranks[0].process.kill).start()
    with pytest.raises(Reported, match="rank 1 was killed by signal SIGKILL in the call 'predict'"):
        sharded.predict(batch())
    with pytest.raises(Reported):
        sharded.predict(batch())


def test_a_rank_that_raises_ends_the_call_with_its_reason(started):
    group = started(raise_at=1)
    sharded = load(group, lambda workload: Waits(workload, group, calls=1))
    sharded.predict(batch())
    with pytest.raises(Reported, match="rank 1: RuntimeError: told to raise at batch 1"):
        sharded.predict(batch())


def test_a_process_whose_call_never_returns_ends_itself(started, tmp_path, monkeypatch):
    ended = threading.Event()
    codes = []

    def end(code):
        codes.append(code)
        ended.set()

    monkeypatch.setattr(processes.os, "_exit", end)
    monkeypatch.setattr(processes, "_END_S", 0.3)
    group = started()

    class Stuck(mock.Mock):
        def predict(self, batch):
            ended.wait(10)
            return super().predict(batch)

    sharded = load(group, Stuck)
    threading.Timer(0.2, group._ranks[0].process.kill).start()
    with pytest.raises(Reported):
        sharded.predict(batch())
    assert codes == [0]
    outcome = process.read_outcome(tmp_path)
    assert outcome and outcome.reason.startswith("rank 1 was killed by signal SIGKILL")


def test_ranks_end_with_the_process_that_they_follow(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_LOOK_S", 0.05)
    assert_all_end_with_the_worker(job_of(tmp_path, milliseconds=30_000))


def test_each_replica_has_ranks_of_its_own(tmp_path):
    job = replace(job_of(tmp_path, milliseconds=200), places=(Place(), Place()))
    with Worker(Path(sys.executable), {}) as worker:
        outcome = run(worker, job)
    assert outcome.status == "ok", outcome.reason
    logs = sorted(path.parent.parent.name for path in job.log_dir.rglob(LOG_OF_RANK_1))
    assert logs == ["replica-0", "replica-1"]
    assert len(outcome.evidence_after.detail["shards"]) == 2
    assert gone(job.log_dir)
