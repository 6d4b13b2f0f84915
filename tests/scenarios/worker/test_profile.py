"""The steps of a profile: the same batch for each, within the profiled window, and nothing else."""

from __future__ import annotations

import dataclasses
import sys
import types

import numpy as np
import pytest

from formats import reading
from formats.job import PROFILE
from formats.profile import StepProfile
from scenarios.worker import profile
from scenarios.worker.heartbeat import Heartbeat
from sut import mock
from sut.contract import Unsupported
from sut.evidence.wall_time import Span, Trace
from sut.registry import FIT
from tests.support import mock_job


@pytest.fixture
def beat(tmp_path):
    return Heartbeat(tmp_path / "heartbeat")


class _Profiler:
    """A framework's profiler, for which each step lasts a second."""

    def __init__(self):
        self.windows: list[str] = []

    def record(self, call):
        call(lambda: _Window(self.windows))
        steps = 3
        spans = [Span("main", "mm", "matrix product", n * 1e9, (n + 0.5) * 1e9) for n in range(20)]
        return Trace("a profiler", 0, steps * 1e9, spans)


class _Window:
    def __init__(self, marks):
        self.marks = marks

    def __enter__(self):
        self.marks.append("begin")

    def __exit__(self, *_):
        self.marks.append("end")


@pytest.fixture
def profiler(monkeypatch):
    found = _Profiler()
    module = types.ModuleType("a_profiler")
    module.record = found.record
    monkeypatch.setitem(sys.modules, "a_profiler", module)
    monkeypatch.setattr(profile, "profiler_of", lambda sut: "a_profiler")
    # Three steps are enough.
    monkeypatch.setattr(profile, "_SECONDS", 0.0)
    return found


def _job(directory, procedure=PROFILE, task="predict"):
    job = mock_job.make(directory, latency_ms=1.0)
    return mock_job.changed(job, procedure=procedure, task=task)


def test_a_step_of_inference_is_a_batch(tmp_path, beat, profiler):
    job = _job(tmp_path)
    sut = mock.load(job.workload)
    profile.profile(job, sut, beat, 1e6)
    step = reading.from_file(job.log_dir / "profile.json", StepProfile)
    assert profiler.windows == ["begin", "end"]
    assert (step.profiler, step.steps, step.kernels) == ("a profiler", 3, 1)
    assert step.seconds["matrix product"] == 0.5 and step.profiled_seconds == 1
    # Two batches of a millisecond overlap.
    assert 0.0003 <= step.unprofiled_seconds < 0.1
    # Two to warm up, one to choose the number, three timed and three profiled.
    assert sut.calls == 2 + 1 + 3 + 3


def test_the_first_step_of_a_training_is_left_out(tmp_path, beat, profiler):
    job = _job(tmp_path, task=FIT)
    rows = mock_job.SAMPLES
    ids = np.ones((rows, 8), np.int32)
    np.savez(job.inputs, input_ids=ids, attention_mask=ids, label=np.zeros(rows, np.int32))
    optimizer = {"beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-8, "weight_decay": 0.0}
    optimizer["learning_rate"] = 0.1
    job = dataclasses.replace(job, config={**job.config, "optimizer": optimizer})
    sut = mock.load_training(job.workload)
    profile.profile(job, sut, beat, 0)
    assert profiler.windows == ["begin", "end"]
    assert sut.steps == (2 + 1) + (1 + 1) + (3 + 1) + (3 + 1)


def test_a_framework_without_a_profiler_is_unsupported(tmp_path, beat):
    job = _job(tmp_path)
    with pytest.raises(Unsupported, match="nothing is written for the profiler of mock"):
        profile.profile(job, mock.load(job.workload), beat, 1e6)
