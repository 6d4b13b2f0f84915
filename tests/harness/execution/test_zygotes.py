"""Workers that are forked from a process which has imported their SUT."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from compliance import audit as audits
from harness.execution import zygotes
from harness.execution.process import Worker
from harness.execution.zygotes import Zygotes
from harness.measurement import run as measure
from sut.registry import module_of
from tests.support import mock_job
from tests.support.cells import Reporter, request
from tests.support.commands import is_alive, until
from tests.support.files import read_json

ROOT = Path(__file__).parents[3]
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks workers")
pytestmark = linux


@pytest.fixture
def said():
    return []


@pytest.fixture
def parents(said, monkeypatch):
    monkeypatch.setattr(zygotes, "_ROOM_BYTES", 0)
    with Zygotes(said.append) as parents:
        parents.expect([module_of("mock", "any")] * 3)
        yield parents


def run(parents, job):
    """→ the outcome, the worker's process id and its parent's while it waits for another job."""
    job.log_dir.mkdir(parents=True, exist_ok=True)
    with Worker(Path(sys.executable), {}, parents) as worker:
        outcome = worker.run(job, lambda beat: None)
        process = worker._process
        status = Path(f"/proc/{process.pid}/stat").read_text() if process else ""
        return outcome, status


def jobs(folder, count=2, **options):
    return [mock_job.make(folder / str(n), milliseconds=50, **options) for n in range(count)]


def only(parents):
    (zygote,) = parents._zygotes.values()
    return zygote._process


def test_each_worker_is_a_child_of_this_process_with_a_group_of_its_own(tmp_path, parents, said):
    for number, job in enumerate(jobs(tmp_path), 1):
        outcome, status = run(parents, job)
        pid, rest = status.split(" ", 1)
        parent, group, session = rest.rpartition(")")[2].split()[1:4]
        assert (outcome.status, outcome.forked) == ("ok", number)
        assert outcome.import_ns > 0
        assert parent == str(os.getpid())
        assert group == session == pid
        until(lambda pid=pid: not is_alive(int(pid)))
    assert not said


def test_a_forked_worker_has_the_variables_and_answers_of_a_fresh_one(tmp_path, parents):
    forked, fresh = jobs(tmp_path, test="accuracy")
    assert run(parents, forked)[0].forked == 1
    assert run(None, fresh)[0].forked == 0
    logs = [read_json(j.log_dir / "mlperf_log_accuracy.json") for j in (forked, fresh)]
    answers = [sorted((each["qsl_idx"], each["data"]) for each in log) for log in logs]
    assert answers[0] == answers[1]
    assert answers[0]


@pytest.mark.parametrize(
    ("option", "words"),
    [({"kill_at": 3}, "killed in the performance test by signal SIGKILL"), ({"raise_at": 3}, "")],
)
def test_the_end_of_a_forked_worker_is_seen(tmp_path, parents, option, words):
    (bad,), (good,) = jobs(tmp_path / "bad", 1, **option), jobs(tmp_path / "good", 1)
    outcome, _ = run(parents, bad)
    assert outcome.status == "error"
    assert words in outcome.reason
    assert run(parents, good)[0].forked == 2


def test_a_killed_zygote_harms_no_running_worker_and_is_told_once(tmp_path, parents, said):
    first, second, third, fourth = jobs(tmp_path, 4)
    with Worker(Path(sys.executable), {}, parents) as worker:
        assert worker.run(first, lambda beat: None).forked == 1
        process = only(parents)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert worker.run(replace(second, test="accuracy"), lambda beat: None).status == "ok"
    assert [run(parents, job)[0].forked for job in (third, fourth)] == [0, 0]
    assert len(said) == 1
    assert "each worker imports the framework again" in said[0]


@pytest.mark.parametrize("ready", ['{"threads": 2, "import_ns": 1}', ""])
def test_a_zygote_with_threads_or_without_an_answer_is_not_used(
    tmp_path, parents, said, monkeypatch, ready
):
    program = tmp_path / "played.py"
    program.write_text(f"import os, sys\nos.write(int(sys.argv[2]), {ready.encode()!r})\n")
    monkeypatch.setattr(zygotes, "_MODULE", "played")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("harness.execution.process.ROOT", f"{ROOT}:{tmp_path}")
    (job,) = jobs(tmp_path, 1)
    assert run(parents, job)[0].forked == 0
    assert len(said) == 1
    assert not parents._zygotes


def test_it_is_ended_when_no_measurement_of_its_sut_is_left(tmp_path, parents):
    first, second = jobs(tmp_path)
    run(parents, first)
    pid = only(parents).pid
    parents.expect(["another"])
    until(lambda: not is_alive(pid))
    assert run(parents, second)[0].forked == 0


def test_variables_and_cores_have_zygotes_of_their_own(tmp_path, parents):
    for job, variables in zip(jobs(tmp_path, 3), ({}, {"KMP_BLOCKTIME": "7"}, {}), strict=True):
        with Worker(Path(sys.executable), variables, parents) as worker:
            assert worker.run(job, lambda beat: None).forked
    assert len(parents._zygotes) == 2


@pytest.mark.parametrize("values", [{"procedure": "fit"}, {"device": "cuda"}])
def test_some_jobs_get_fresh_processes(tmp_path, values):
    (job,) = jobs(tmp_path, 1)
    assert zygotes._can_fork(job)
    assert not zygotes._can_fork(mock_job.changed(job, **values))


HARNESS = """
import sys
from pathlib import Path
from harness.execution import zygotes
from harness.execution.process import Worker
from sut.registry import module_of
from tests.support import mock_job
from tests.support.cells import Reporter, request

zygotes._ROOM_BYTES = 0
with zygotes.Zygotes(print) as parents:
    parents.expect([module_of("mock", "any")] * 3)
    job = mock_job.make(Path(sys.argv[1]), milliseconds=50)
    with Worker(Path(sys.executable), {}, parents) as worker:
        assert worker.run(job, lambda beat: None).forked == 1
        (zygote,) = parents._zygotes.values()
        print(zygote._process.pid, worker._process.pid, flush=True)
        sys.stdin.read()
"""


def test_nothing_stays_behind_when_the_harness_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as harness:
        processes = [int(word) for word in harness.stdout.readline().split()]
        assert len(processes) == 2
        assert all(map(is_alive, processes))
        harness.kill()
    until(lambda: not any(map(is_alive, processes)))


def test_the_import_of_an_earlier_measurement_is_shown_and_not_in_the_total(tmp_path, parents):
    parents.expect([module_of("mock", "bert")] * 3)
    for number in (1, 2):
        found = measure.run(request(tmp_path), Reporter(), time.monotonic_ns(), zygotes=parents)
        record = read_json(Path(found.directory) / "raw/performance/outcome.json")
        assert found.status == "ok"
        assert record["forked"] == number
        parts = {k: v for k, v in found.seconds.items() if k not in ("total", "until_measuring")}
        earlier_s = found.seconds["import"] if number == 2 else 0.0
        assert sum(parts.values()) - earlier_s == pytest.approx(found.seconds["total"], abs=0.02)
        audit = audits.audit(Path(found.directory), found.round)
        assert "in a fork of a process" in str(audit)


@pytest.mark.long
def test_a_forked_framework_answers_as_a_fresh_one(tmp_path, said):
    answers = []
    with Zygotes(said.append) as parents:
        parents.expect([module_of("native-jax", "bert")] * 3)
        for number, own in ((1, parents), (2, parents), (0, None)):
            asked = request(tmp_path / str(number), sut="native-jax", size="tiny")
            found = measure.run(asked, Reporter(), time.monotonic_ns(), zygotes=own)
            assert found.status == "ok", found.reason
            raw = Path(found.directory) / "raw"
            outcome = read_json(raw / "performance" / "outcome.json")
            assert outcome["forked"] == number
            log = read_json(raw / "accuracy" / "mlperf_log_accuracy.json")
            answers.append(sorted((each["qsl_idx"], each["data"]) for each in log))
    assert not said
    assert answers[0] == answers[1] == answers[2]
