"""Making the reference: once for two processes, again after a failure, another for other
weights.
"""

import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from formats.job import COUNT
from formats.outcome import WorkerOutcome
from formats.work import MATRIX, Counted, Part, Work
from formats.writing import write_json
from harness.errors import EnvironmentFailure
from harness.execution.environments import ROOT, Environment
from harness.inputs import checkpoint, dataset
from harness.measurement import counted_work, reference
from harness.measurement.attempt import Reference
from harness.request.request import Request
from scenarios.worker import work
from tests.support.cells import Reporter, attempt, request


@pytest.fixture
def made(tmp_path, monkeypatch):
    """ensure(checkpoint) with a worker that is played: `calls` counts it, `outcomes` may tell it to
    fail.
    """
    asked = request(tmp_path, cache=tmp_path)
    inputs = dataset.prepare(asked.model, asked.size, 4, None, tmp_path)
    calls, outcomes = [], []

    def worker(job, python, env, watch):
        calls.append(job)
        time.sleep(0.3)
        (job.log_dir / "reference.npz").write_bytes(b"answers")
        return outcomes.pop() if outcomes else WorkerOutcome("ok")

    monkeypatch.setattr(reference.process, "run", worker)

    def ensure(weights=checkpoint.NONE, python=None, packages="", make=reference.ensure, **changes):
        flags = replace(asked, options=replace(asked.options, python=python), **changes)
        environment = Environment("core", tmp_path, packages)
        tried = attempt(flags, environment, inputs, weights)
        return make(tried, lambda name: environment, Reporter())

    ensure.work_of = lambda: ensure(make=reference.work_of)

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


def test_the_reference_of_a_streamed_cell_gives_whole_answers(made):
    made(stream=True)
    (job,) = made.calls
    assert not job.stream


def test_without_its_environment_only_a_bundle_goes_on(made, monkeypatch, tmp_path):
    def lacking(*arguments):
        raise EnvironmentFailure("the bundle holds core")

    monkeypatch.setattr(reference, "lock_files", lacking)
    with pytest.raises(EnvironmentFailure):
        made()
    monkeypatch.setattr(reference.wheels, "bundle", lambda root: tmp_path)
    assert made() == Reference(None, reason="no reference: the bundle holds core")


def test_the_batches_of_an_interrupted_one_stay_for_the_next_and_then_go(made, monkeypatch):
    played = reference.process.run
    seen = []

    def interrupted(job, python, env, watch):
        (job.log_dir / "reference-part-0-of-4.npz").write_bytes(b"batch")
        (job.log_dir / "heartbeat").write_bytes(b"old")
        raise KeyboardInterrupt

    def next_one(job, *arguments):
        seen.extend(path.name for path in job.log_dir.iterdir())
        return played(job, *arguments)

    monkeypatch.setattr(reference.process, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made()
    monkeypatch.setattr(reference.process, "run", next_one)
    folder = made().path.parent
    assert seen == ["reference-part-0-of-4.npz"]
    assert [path.name for path in folder.iterdir()] == ["reference.npz"]


def test_its_seconds_are_known_to_who_made_it(made):
    made.outcomes.append(WorkerOutcome("ok", load_ns=2_000_000_000, seconds={"answers": 5.0}))
    assert made().seconds == {"load": 2.0, "answers": 5.0}
    assert made().seconds == {}


def test_the_host_makes_what_does_not_fit_into_an_accelerator(made, monkeypatch):
    made.outcomes.append(WorkerOutcome("oom", "CUDA out of memory"))
    first = made(device="cuda")
    assert first.path.read_bytes() == b"answers" and [
        job.workload.device for job in made.calls
    ] == ["cuda", "cpu"]
    assert made(device="cuda") == first and len(made.calls) == 2
    made.outcomes.append(WorkerOutcome("oom", "CUDA out of memory"))
    monkeypatch.setattr(
        reference,
        "shortage",
        lambda asked: "28 GB" if asked.device == "cpu" else None,
    )
    assert (
        made(replace(checkpoint.NONE, digest="0" * 64), device="cuda").reason
        == "no reference: 28 GB; on cuda: CUDA out of memory"
    )


def test_the_host_makes_no_training_for_an_accelerator(made, monkeypatch):
    monkeypatch.setattr(Request, "trains", True)
    made.outcomes.append(WorkerOutcome("oom", "CUDA out of memory"))
    assert made(device="cuda").reason == "no reference: oom: CUDA out of memory"
    assert len(made.calls) == 1


def count(made, monkeypatch):
    """From now on the work is counted. Each worker counts another number."""
    played = reference.process.run

    def worker(job, python, env, watch):
        outcome = played(job, python, env, watch)
        part = Part(flops={MATRIX: len(made.calls)}, weights=1, activations=1, passes=1)
        write_json(job.log_dir / work.FILE, Counted(work=Work(first=part)))
        return outcome

    monkeypatch.setattr(reference.process, "run", worker)
    monkeypatch.setattr(counted_work, "REFERENCE", "mock")
    monkeypatch.setattr(counted_work, "is_made", lambda *_: True)


def test_the_worker_that_makes_it_counts_its_work(made, monkeypatch):
    count(made, monkeypatch)
    assert made().work.first.all_flops == made().work.first.all_flops == 1
    assert len(made.calls) == 1


def test_one_of_an_earlier_version_gets_its_work_without_new_answers(made, monkeypatch):
    earlier = made()
    assert earlier.work is None
    count(made, monkeypatch)
    assert made() == replace(earlier, work=made().work)
    assert [job.procedure for job in made.calls] == ["reference", COUNT]


def test_work_that_could_not_be_counted_is_a_note_and_is_counted_next_time(made, monkeypatch):
    made()
    count(made, monkeypatch)
    made.outcomes.append(WorkerOutcome("oom", "too large"))
    assert made().notes == ("the model's operations are not counted: oom: too large",)
    assert made().work is not None
    assert len(made.calls) == 3


def test_a_profile_counts_its_work_without_answers(made, monkeypatch):
    count(made, monkeypatch)
    first = made.work_of()
    assert first.work.first.all_flops == 1
    assert made.work_of() == first
    assert [job.procedure for job in made.calls] == [COUNT]
    assert made().path.read_bytes() == b"answers"


def test_other_weights_have_a_reference_of_their_own(made):
    first, second = made(), made(replace(checkpoint.NONE, digest="0" * 64))
    assert first.path != second.path
    assert len(made.calls) == 2


@pytest.mark.parametrize(
    "file",
    ["sut/mock.py", "sut/reference/library.py", "scenarios/worker/queries/teacher_forcing.py"],
)
def test_other_files_that_make_it_make_it_anew(made, monkeypatch, tmp_path, file):
    first, copy = made(), tmp_path / "tree"
    for folder in ("sut", "scenarios"):
        shutil.copytree(ROOT / folder, copy / folder)
    monkeypatch.setattr(reference, "ROOT", copy)
    assert made() == first
    (copy / file).write_text((copy / file).read_text() + "\n")
    assert made().path != first.path


def test_a_users_interpreter_with_other_packages_makes_it_anew(made):
    first = made(python=Path("python3"), packages="one")
    assert made(python=Path("python3"), packages="one") == first
    assert made(python=Path("python3"), packages="another").path != first.path


def test_idle_threads_of_the_reference_may_sleep(made, monkeypatch):
    """OpenMP's spinning made it many times slower beside another process; nothing is timed
    there.
    """
    seen = {}
    monkeypatch.setattr(
        reference.process,
        "run",
        lambda job, python, env, watch: seen.update(env) or WorkerOutcome("error", "enough"),
    )
    made()
    assert seen["OMP_WAIT_POLICY"] == "PASSIVE"
