"""The candidates a reference keeps of each position's logits, and the batches of a worker that was
interrupted.
"""

import numpy as np
import pytest

from formats.job import REFERENCE
from scenarios.worker import __main__ as worker
from scenarios.worker import reference
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.queries import answers
from sut import mock
from tests.support import mock_job


def test_the_candidates_are_those_of_a_whole_sort():
    logits = np.random.default_rng(0).random((3, 4, 500), np.float32)
    logits[..., [17, 30]] = 2  # of equal ones the first is the answer, as argmax has it
    expected = np.argsort(-logits, axis=-1, kind="stable")[..., : reference.TOP]
    found = answers.largest(logits, reference.TOP)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)


class Echo:
    """Answers with its inputs."""

    def predict(self, batch):
        return {"logits": batch["input_ids"].astype(np.float32)}

    def to_host(self, outputs):
        return outputs


def test_the_mask_of_padded_inputs_is_written_if_each_position_has_an_answer(tmp_path):
    mask = np.array([[1, 1, 0], [1, 0, 0]], np.int32)
    inputs = {"input_ids": np.arange(6, dtype=np.int32).reshape(2, 3), "attention_mask": mask}
    path = tmp_path / "reference.npz"
    settings = {"prepared": [inputs], "batch_size": 2, "logits_rows": 0, "on_batch": lambda: None}
    reference.write_reference(path, Echo(), inputs, **settings)
    with np.load(path) as found:
        assert set(found) == {"logits"}
    reference.write_reference(path, Echo(), inputs, **settings, mask="attention_mask")
    with np.load(path) as found:
        assert found["is_token"].tolist() == [[True, True, False], [True, False, False]]


@pytest.fixture
def make(monkeypatch):
    """Job → (outcome, reference.npz) of a worker. `make.answered` has the rows of the batches that
    the SUT answered. It fails before the batch with number `make.fails_at`.
    """
    predict = mock.Mock.predict

    def seen(sut, batch):
        if len(make.answered) == make.fails_at:
            raise KeyboardInterrupt
        make.answered.append(len(batch["input_ids"]))
        return predict(sut, batch)

    def make(job):
        make.answered = []
        outcome, _ = worker.measure(job, Heartbeat(job.log_dir / "heartbeat"))
        with np.load(job.log_dir / reference.FILE) as file:
            return outcome, dict(file)

    monkeypatch.setattr(mock.Mock, "predict", seen)
    make.fails_at = None
    return make


def job_in(folder):
    """The job of a reference with four batches of generated answers."""
    return mock_job.make(folder, task="generate", test=REFERENCE)


def test_a_reference_answers_each_batch_once_without_a_warm_up(make, tmp_path):
    outcome, answers = make(job_in(tmp_path))
    assert make.answered == [4] * 4
    assert outcome.warmup == []
    assert set(outcome.seconds) == {"answers", "candidates", "writing", "work"}
    assert len(answers["tokens"]) == len(answers["top_ids"]) == mock_job.SAMPLES
    assert len(answers["logits"]) == 4  # of the first rows only


def test_an_interrupted_reference_goes_on_after_its_last_batch(make, tmp_path):
    _, expected = make(job_in(tmp_path / "whole"))
    job = job_in(tmp_path / "cut")
    make.fails_at = 2
    with pytest.raises(KeyboardInterrupt):
        make(job)
    make.fails_at = None
    _, answers = make(job)
    assert make.answered == [4, 4]
    assert set(answers) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(answers[name], values)
