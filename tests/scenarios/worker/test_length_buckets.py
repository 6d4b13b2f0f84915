"""Batches of inputs of similar lengths: their order, their widths, and the answers of each sample."""

from dataclasses import replace

import numpy as np

from harness.measurement import run
from scenarios import offline
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.queries import length_buckets
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.watch import Watch
from scenarios.worker.watching.warm_up import warm_up
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


def test_samples_are_sorted_within_each_pass_over_the_data_set():
    tokens = np.array([1, 3, 2])
    ids, indices = length_buckets.by_length("abcdef", [0, 1, 2, 2, 0, 1], tokens, chunk=3)
    assert (ids, indices) == (list("bcafde"), [1, 2, 0, 1, 2, 0])


def test_a_batch_of_two_passes_has_room_for_its_longest_sample(tmp_path):
    _, widths = sorted_query(tmp_path, [1, 1, 1, 8], one_pass=3)
    assert widths == [4, 8]


def test_each_sample_of_a_sorted_query_gets_its_own_answer(tmp_path):
    answered, widths = sorted_query(tmp_path, [1, 8, 3, 8], one_pass=4)
    assert answered == [(11, 1), (13, 3), (12, 2), (10, 0)]
    assert widths == [8, 4]


def sorted_query(directory, tokens, one_pass):
    """Answer inputs with so many tokens in batches of 2. Return (ids and rows, widths)."""
    job = mock_job.make(directory, batch=2)
    tokens = np.array(tokens)
    mask = (np.arange(8) < tokens[:, None]).astype(np.int32)
    np.savez(job.inputs, input_ids=np.where(mask, 7, 0).astype(np.int32), attention_mask=mask)
    limits = replace(job.limits, performance_sample_count=one_pass)
    job = replace(job, length_buckets=(4, 8), limits=limits)
    sut = mock.load(job.workload)
    seen = []
    predict = sut.predict
    sut.predict = lambda batch: seen.append(batch["input_ids"].shape[1]) or predict(batch)
    qsl, recorder = Qsl(job.inputs, sut.prepare), Recorder()
    count = len(tokens)
    qsl.load(range(count))
    issue, _ = offline.callbacks(sut, qsl, recorder, job, Watch())
    issue(range(10, 10 + count), range(count))
    return recorder.answered, seen


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
    assert result.accuracy.passed
    assert result.cell.switches == ("length-buckets",)
