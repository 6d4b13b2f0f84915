"""How a worker can die, and what is said of it."""

import os
import re
import resource
import signal
import subprocess
import sys

import psutil
import pytest

from formats.writing import write_json
from harness.execution import process
from harness.execution.environments import ROOT
from scenarios.worker.system import host_memory
from tests.support import mock_job
from tests.support.commands import is_alive, until
from tests.support.files import program


def run(job, python=sys.executable):
    return process.run(job, python, {}, lambda beat: None)


def test_an_exception_becomes_its_words_and_the_log_keeps_the_traceback(tmp_path):
    job = mock_job.make(tmp_path, raise_at=40)
    outcome = run(job)
    assert (outcome.status, outcome.reason) == ("error", "RuntimeError: told to raise at batch 40")
    assert "Traceback" in (job.log_dir / "worker.log").read_text()


def test_sigkill_is_named(tmp_path):
    outcome = run(mock_job.make(tmp_path, kill_at=40))
    assert outcome.status == "error"
    assert "killed in the performance test by signal SIGKILL" in outcome.reason


def test_memory_that_the_system_refuses_is_oom(tmp_path):
    text = f'ulimit -v 3000000\nexec {sys.executable} "$@"'
    limited = program(tmp_path / "python", text)
    outcome = run(mock_job.make(tmp_path / "run", exhaust_memory_at=1), limited)
    assert outcome.status == "oom"
    told = re.search(r"available ([\d,]+) bytes$", outcome.reason)
    assert told and int(told[1].replace(",", "")) < 3_000_000 << 10


@pytest.mark.parametrize(
    ("own_peak", "words"),
    [
        (1 << 20, "at 5,368,709,120 bytes of this machine's "),
        (6 << 30, "for want of memory: choose"),
    ],
)
def test_a_kernel_kill_for_memory_is_oom(tmp_path, monkeypatch, own_peak, words):
    """A child begins with its parent's peak, so no more than that tells nothing."""
    counts, held = iter([3, 3, 4]), iter([1 << 20, 5 << 30])
    monkeypatch.setattr(host_memory, "kernel_oom_kills", lambda: next(counts))

    def peak(whose):
        return own_peak if whose == resource.RUSAGE_SELF else next(held)

    monkeypatch.setattr(process, "_peak_bytes", peak)
    outcome = run(mock_job.make(tmp_path, kill_at=40))
    assert outcome.status == "oom"
    assert words in outcome.reason


def test_an_interpreter_that_cannot_start_is_told_with_its_exit_code(tmp_path):
    job = mock_job.make(tmp_path)
    outcome = run(job, "/bin/false")
    assert outcome.status == "error"
    assert "exit code 1" in outcome.reason
    assert str(job.log_dir / "worker.log") in outcome.reason


def test_a_hang_ends_after_its_limit_and_leaves_no_process(tmp_path):
    """A worker that beats with a limit of three seconds, starts a child of its own, and stops."""
    text = f"""
import subprocess, sys, time, json, pathlib
sys.path.insert(0, {str(ROOT)!r})
from scenarios.worker.heartbeat import COMPLETED, Heartbeat
log_dir = pathlib.Path(sys.argv[-1]).parent
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
(log_dir / "child").write_text(str(child.pid))
beat = Heartbeat(log_dir / "heartbeat")
beat.enter("test", 3, 100); beat.cells[COMPLETED] = 7
time.sleep(600)
"""
    stuck = program(tmp_path / "python", text, sys.executable)
    job = mock_job.make(tmp_path / "run")
    outcome = run(job, stuck)
    assert outcome.status == "error"
    assert "hung in the performance test, phase test: no progress after 7 in 3 s" in outcome.reason
    child = int((job.log_dir / "child").read_text())
    assert until(lambda: not is_alive(child))  # the system ends it a moment after the signal


def test_ctrl_c_ends_the_worker(tmp_path):
    job = mock_job.make(tmp_path, milliseconds=60_000)

    def interrupt(beat):
        if beat.phase == "test":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.run(job, sys.executable, {}, interrupt)
    assert not [
        p
        for p in psutil.process_iter(["cmdline"])
        if "scenarios.worker" in (p.info["cmdline"] or []) and p.ppid() == os.getpid()
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux' own")
def test_a_worker_dies_with_its_parent(tmp_path):
    """kill -9 of the harness itself: nothing can clean up but the kernel."""
    job = mock_job.make(tmp_path, milliseconds=60_000)
    code = f"""
import sys, pathlib
from harness.execution import process
from formats.job import read_job
from formats.writing import write_json
from tests.support import mock_job
process.run(read_job(pathlib.Path({str(job.log_dir / "given.json")!r})), sys.executable, {{}}, lambda beat: None)
"""
    write_json(job.log_dir / "given.json", job)
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    worker = until(lambda: next(iter(psutil.Process(parent.pid).children()), None))
    until(lambda: (job.log_dir / "plan.json").exists())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert until(lambda: not is_alive(worker.pid))
