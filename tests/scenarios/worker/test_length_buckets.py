"""Batches of inputs of similar lengths: their order, their widths, and the answers of each sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.measurement import run
from harness.request import tuning
from scenarios import offline
from scenarios.worker import length_buckets
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.qsl import Qsl
from scenarios.worker.warm_up import warm_up
from scenarios.worker.watch import Watch
from sut import mock
from tests.support import mock_job
from tests.support.cells import Reporter, request


class Recorder:
    """Keeps the ids and the rows that were answered."""

    def __init__(self):
        self.answered = []

    def complete(self, ids, packed, indices):
        self.answered += zip(ids, indices, strict=True)


def test_the_widths_divide_the_longest_one():
    assert length_buckets.widths(128, 4) == (32, 64, 96, 128)
    assert length_buckets.widths(20, 4) == (8, 16, 20)
    assert length_buckets.widths(128, 1) == (128,)


def test_a_batch_is_cut_to_the_narrowest_bucket_with_room():
    batch = {"input_ids": np.arange(32).reshape(2, 16), "prompt_length": np.array([3, 9])}
    narrow = length_buckets.cut(batch, 9, (8, 12, 16))
    assert narrow["input_ids"].tolist() == batch["input_ids"][:, :12].tolist()
    assert narrow["prompt_length"] is batch["prompt_length"]
    assert length_buckets.cut(batch, 13, (8, 12, 16)) is batch


def test_each_sample_of_a_sorted_query_gets_its_own_answer(tmp_path):
    job = mock_job.make(tmp_path, batch=2)
    tokens = np.array([1, 8, 3, 8])
    mask = (np.arange(8) < tokens[:, None]).astype(np.int32)
    np.savez(job.inputs, input_ids=np.where(mask, 7, 0).astype(np.int32), attention_mask=mask)
    job = replace(job, length_buckets=(4, 8))
    sut = mock.load(job.workload)
    seen = []
    predict = sut.predict
    sut.predict = lambda batch: seen.append(batch["input_ids"].shape) or predict(batch)
    qsl, recorder = Qsl(job.inputs, sut.prepare), Recorder()
    qsl.load(range(4))
    issue, _ = offline.callbacks(sut, qsl, recorder, job, Watch())
    issue([10, 11, 12, 13], [0, 1, 2, 3])
    assert recorder.answered == [(11, 1), (13, 3), (12, 2), (10, 0)]
    assert seen == [(2, 8), (2, 4)]


def test_every_width_is_run_before_the_test(tmp_path):
    job = replace(mock_job.make(tmp_path), length_buckets=(4, mock_job.WIDTH))
    sut = mock.load(job.workload)
    seen = []
    predict = sut.predict
    sut.predict = lambda batch: seen.append(batch["input_ids"].shape[1]) or predict(batch)
    times, _ = warm_up(job, sut, Heartbeat(tmp_path / "heartbeat"))
    assert seen == [4, 4, mock_job.WIDTH, mock_job.WIDTH]
    assert len(times) == 2


def test_a_tuned_cell_of_the_mock_is_valid(tmp_path):
    of = request(tmp_path, scenario="Offline", size="tiny", tuned="length-buckets", batch_size=4)
    assert of.tuned.buckets == 4
    result = run.run(of, Reporter(), 0)
    assert (result.status, result.reason) == ("ok", "")
    assert result.accuracy["passed"]
    assert result.cell.switches == ("length-buckets",)


def test_inputs_of_one_length_have_no_buckets(tmp_path):
    even = request(tmp_path, scenario="Offline", size="tiny", standard="synthetic")
    place = tuning.Work(
        architecture="bert",
        model="bert",
        size="tiny",
        task="predict",
        precision="float32",
        batch_size=1,
        device="cpu",
        uneven=False,
    ).place(even.options)
    assert "length-buckets" not in {each.name for each in tuning.tuning.candidates(place)}
