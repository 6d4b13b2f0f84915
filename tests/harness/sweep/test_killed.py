"""A sweep that is killed again and again: nothing is lost, nothing is measured twice, nothing half
written is taken for a result.
"""

import json
import os
import random
import signal
import subprocess
from dataclasses import asdict

import pytest

from formats import reading
from formats.result import Result
from harness import result
from harness.comparison import runs
from harness.execution.environments import ROOT
from tests.support.files import read_json

SWEEP = [
    "--sut",
    "mock",
    "--model",
    "bert,mistral",
    "--scenario",
    "Offline",
    "--duration",
    "0.3",
    "--repeats",
    "3",
]
SERIES, REPEATS = 3, 3  # two models, and the control of the first
KILLS = 10


def start(out):
    command = [ROOT / "run.sh", "sweep", *SWEEP, "--out", out]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(out):
    """(series, repeat, folder) → the bytes of result.json and the time of LoadGen's log, of every
    attempt that has a result.
    """
    marks = {}
    for path in out.rglob("result.json"):
        mark = read_json(path)["sweep"]
        key = (mark["series"], mark["repeat"], path.parent)
        marks[key] = (
            path.read_bytes(),
            (path.parent / "raw/performance/mlperf_log_detail.txt").stat().st_mtime_ns,
        )
    return marks


@pytest.mark.long
def test_after_ten_kills_every_repeat_was_measured_once(tmp_path):
    chance = random.Random(20261122)
    before, kills = {}, 0
    while kills < KILLS:
        process = start(tmp_path)
        try:
            _, error = process.communicate(timeout=chance.uniform(0.5, 2.5))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)  # run.sh became the harness by exec
            process.communicate()
            kills += 1
        else:
            assert process.returncode == 0, error
            break  # it was done before it could be killed so often
        now = finished(tmp_path)
        assert before.items() <= now.items(), "a finished attempt is gone, or was measured anew"
        before = now
    last = start(tmp_path)
    output, error = last.communicate(timeout=300)
    assert last.returncode == 0, error
    now = finished(tmp_path)
    assert before.items() <= now.items()
    measured = {}
    for series, repeat, folder in now:
        measured.setdefault((series, repeat), []).append(
            runs.read(reading.convert(read_json(folder / "result.json"), Result))
        )
    assert set(measured) == {
        (series, repeat) for series in range(SERIES) for repeat in range(1, REPEATS + 1)
    }
    for attempts in measured.values():  # only a disturbed one is measured again
        last = max(attempts, key=lambda run: run.order)
        assert all(run is last or run.disturbances[0] for run in attempts)
    assert kills >= KILLS // 2
    assert len(list(tmp_path.glob("sweeps/*/sweep.json"))) == 1
    for path in tmp_path.rglob("quick-*"):
        derived = json.loads(json.dumps(asdict(result.derive(path))))
        assert derived == read_json(path / "result.json")
        assert derived["status"] == "ok"
