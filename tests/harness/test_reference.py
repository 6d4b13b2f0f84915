"""Making the reference: once for two processes, again after a failure, another for other weights."""

import threading
import time
from dataclasses import replace

import pytest

from harness import reference
from harness.execution.environments import Environment
from harness.inputs import checkpoint, dataset
from scenarios.worker.job import WorkerOutcome
from tests.support.cells import request


@pytest.fixture
def made(tmp_path, monkeypatch):
    """ensure(checkpoint) with a worker that is played: `calls` counts it, `outcomes` may tell it to fail."""
    asked = request(tmp_path, cache=tmp_path)
    inputs = dataset.prepare(asked.model, asked.size, 4, None, tmp_path)
    calls, outcomes = [], []

    def worker(job, python, env, watch):
        calls.append(job)
        time.sleep(0.3)
        (job.log_dir / "reference.npz").write_bytes(b"answers")
        return outcomes.pop() if outcomes else WorkerOutcome("ok")

    monkeypatch.setattr(reference.process, "run", worker)
    environment = Environment("core", tmp_path, "")

    def ensure(weights=checkpoint.NONE):
        return reference.ensure(asked, weights, inputs, lambda: environment, lambda beat: None, lambda text: None)

    ensure.calls, ensure.outcomes = calls, outcomes
    return ensure


def test_of_two_processes_one_makes_it_and_the_other_waits(made):
    found = []
    threads = [threading.Thread(target=lambda: found.append(made())) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made.calls) == 1
    assert found[0] == found[1]
    assert found[0].path.read_bytes() == b"answers"


def test_one_that_could_not_be_made_says_why_and_is_tried_again(made):
    made.outcomes.append(WorkerOutcome("oom", "too large"))
    assert made().reason == "no reference: oom: too large"
    assert made().path is not None
    assert len(made.calls) == 2


def test_other_weights_have_a_reference_of_their_own(made):
    first, second = made(), made(replace(checkpoint.NONE, digest="0" * 64))
    assert first.path != second.path
    assert len(made.calls) == 2


def test_idle_threads_of_the_reference_may_sleep(made, monkeypatch):
    """OpenMP's spinning made it many times slower beside another process; nothing is timed there."""
    seen = {}
    monkeypatch.setattr(reference.process, "run", lambda job, python, env, watch: seen.update(env) or WorkerOutcome("error", "enough"))
    made()
    assert seen["OMP_WAIT_POLICY"] == "PASSIVE"
