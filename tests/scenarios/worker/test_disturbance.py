"""What went on beside a test is seen: a worker that stands still, another program at work."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

from harness.execution import process
from results.disturbance import sentences
from scenarios.worker.system import disturbance
from tests.support import mock_job


def test_gaps_far_beyond_the_slowest_batch_count_as_stand_stills():
    gaps_ns = np.array([10, 12, 50, 9, 90, 29]) * 1_000_000
    found = disturbance.between(None, None, 2.0, gaps_ns, slowest_ns=10e6)
    assert (found.stalls, found.stalled_seconds, found.longest_stall_seconds) == (2, 0.12, 0.09)
    # Below 20 ms nothing is one.
    assert disturbance.between(None, None, 2.0, gaps_ns, slowest_ns=1e3).stalls == 3
    assert disturbance.between(None, None, 2.0, gaps_ns[:0], slowest_ns=1e3).stalls == 0


def test_shares_are_of_the_span_and_of_other_programs_only():
    before = disturbance.ProcessorTimes(0, busy=100.0, steal=1.0, own=50.0)
    after = disturbance.ProcessorTimes(2_000_000_000, busy=104.0, steal=1.5, own=51.0)
    none = np.empty(0, np.int64)
    found = disturbance.between(before, after, 2.0, none, 0.0)
    assert (found.other_processors, found.stolen_processors, found.stalls) == (1.5, 0.25, 0)
    unknown = disturbance.between(None, after, 2.0, none, 0.0)
    assert (unknown.other_processors, unknown.stolen_processors) == (None, None)


class Clocks:
    """The calendar and the monotonic clock, by a script. `switches`: how long another program runs
    between two readings.
    """

    def __init__(self, switches=()):
        self.now_ns, self.step_ns, self.switches = 10**9, 0, list(switches)

    def _read(self):
        self.now_ns += self.switches.pop() if self.switches else 50
        return self.now_ns

    def perf_counter_ns(self):
        return self._read()

    def time_ns(self):
        return self._read() + self.step_ns + 1_700_000_000 * 10**9


@pytest.mark.parametrize("step_s", [3.0, -3.0, 0.0])
def test_a_step_of_the_calendar_is_seen_whatever_runs_between_two_readings(monkeypatch, step_s):
    clocks = Clocks(switches=[8_000_000, 50, 50, 50, 9_000_000])
    monkeypatch.setattr(disturbance, "time", clocks)
    before = disturbance.calendar_ahead_ns()
    clocks.now_ns += 10**10
    clocks.step_ns = int(step_s * 1e9)
    clocks.switches = [50, 50, 7_000_000]
    step_ns = disturbance.calendar_ahead_ns() - before
    found = disturbance.between(None, None, 10.0, np.empty(0, np.int64), 0.0, step_ns)
    assert found.clock_step_seconds == step_s


def test_a_calendar_that_is_set_during_a_test_makes_the_figure_unfit_for_ranking():
    def serious(step_s, seconds=10.0):
        none = np.empty(0, np.int64)
        noise = disturbance.between(None, None, seconds, none, 0.0, int(step_s * 1e9))
        return sentences(noise, 2)

    (text,), notes = serious(3.0)
    assert "the calendar clock, by which LoadGen measures, was set by +3 s" in text and not notes
    assert "set by -0.0111 s" in serious(-0.0111)[0][0]
    # 1 ms and 0.1 % of the test are within NTP's usual corrections.
    assert serious(0.0109) == serious(0.0) == ([], [])
    assert serious(0.0109, seconds=9.0)[0]


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
def test_a_worker_that_was_stopped_while_measuring_is_seen(tmp_path, scenario):
    job = mock_job.make(tmp_path, scenario=scenario, batch=1, milliseconds=2000, latency_ms=10.0)
    stopped = []

    def watch(beat):
        if beat.phase == "test" and not stopped and beat.completed:
            worker = next(
                p for p in psutil.Process().children() if "scenarios.worker" in p.cmdline()
            )
            stopped.append(worker.pid)
            os.kill(worker.pid, signal.SIGSTOP)
            threading.Timer(1.0, os.kill, (worker.pid, signal.SIGCONT)).start()

    outcome = process.run(job, sys.executable, {}, watch)
    assert stopped and outcome.status == "ok"
    seen = outcome.disturbance
    assert seen.stalls >= 1
    assert seen.longest_stall_seconds > 0.9
    assert seen.stalled_seconds <= seen.seconds
    assert abs(seen.clock_step_seconds) < 1e-3


def test_another_programs_work_is_seen(tmp_path):
    job = mock_job.make(tmp_path, milliseconds=1500, latency_ms=10.0)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            outcome = process.run(job, sys.executable, {}, lambda beat: None)
        finally:
            busy.kill()
    assert outcome.disturbance.other_processors > 0.3


def test_a_process_that_the_worker_started_is_none_of_other_programs():
    before = disturbance.read()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        time.sleep(1.0)
        after = disturbance.read()
        child.kill()
    if before is None or after is None:
        pytest.skip("this system does not tell")
    found = disturbance.between(before, after, 1.0, np.empty(0, np.int64), 0.0)
    assert found.children == 1
    assert found.children_processors > 0.2
    assert after.own - before.own > 0.2


def test_a_child_that_has_ended_meanwhile_does_not_hide_the_others(tmp_path, monkeypatch):
    (tmp_path / "1/task/1").mkdir(parents=True)
    (tmp_path / "1/task/1/children").write_text("2 3 ")
    (tmp_path / "3").mkdir()
    (tmp_path / "3/stat").write_text("3 (a name) S" + " 0" * 10 + " 5 6 7 8 0 0")
    monkeypatch.setattr(disturbance, "_PROC", tmp_path)
    assert disturbance._descendants(1) == {3: 26}


def test_an_idle_process_that_the_worker_started_is_not_told():
    times = [
        disturbance.ProcessorTimes(at, busy=at / 1e9, steal=0.0, own=at / 1e9, children={7: used})
        for at, used in ((0, 3.0), (10**9, 3.01))
    ]
    assert disturbance.between(*times, 1.0, np.empty(0, np.int64), 0.0).children == 0
