"""What LoadGen is handed: addresses and lengths of rows, whatever their layout; and what is refused
before it is handed.
"""

import ctypes

import numpy as np
import pytest

from scenarios.worker import loadgen
from scenarios.worker.heartbeat import COMPLETED, Heartbeat
from scenarios.worker.queries import answers
from scenarios.worker.watch import Watch
from tests.support import mock_job


@pytest.fixture
def handed(tmp_path, monkeypatch):
    """Completes a batch and gives back (id, bytes) of each sample, as LoadGen copies them."""
    sent, beat, watch = [], Heartbeat(tmp_path / "heartbeat"), Watch()
    copied = lambda i, address, size: (i, ctypes.string_at(address, size))  # noqa: E731
    monkeypatch.setattr(loadgen.lg, "QuerySampleResponse", copied)
    monkeypatch.setattr(loadgen.lg, "QuerySamplesComplete", sent.extend)
    complete = loadgen.responder(beat, watch).complete

    def batch(ids, given, keys):
        sent.clear()
        complete(ids, answers.pack(given, keys), ids)
        assert watch.samples == beat.cells[COMPLETED]
        return list(sent)

    return batch


WHOLE = np.arange(12, dtype=np.float32).reshape(4, 3)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "rows",
    [
        WHOLE,
        read_only(WHOLE),
        np.asfortranarray(WHOLE),
        np.repeat(WHOLE, 2, axis=1)[:, ::2],
        np.broadcast_to(WHOLE[0], (4, 3)),
    ],
    ids=["contiguous", "read-only", "by columns", "every other", "one row four times"],
)
def test_each_sample_gets_its_own_row_whatever_the_layout(handed, rows):
    assert handed([7, 8, 9], {"logits": rows}, ("logits",)) == [
        (i, rows[k].tobytes()) for k, i in enumerate((7, 8, 9))
    ]
    assert handed([7], {"logits": rows[:1]}, ("logits",)) == [(7, rows[0].tobytes())]


def test_several_keys_are_joined_and_masks_packed(handed):
    mask = np.array([[True] * 8, [False] * 8])
    assert handed([0, 1], {"iou": WHOLE[:2, :1], "mask": mask}, ("iou", "mask")) == [
        (0, WHOLE[0, :1].tobytes() + b"\xff"),
        (1, WHOLE[1, :1].tobytes() + b"\x00"),
    ]


def test_tokens_are_cut_to_their_count(handed):
    tokens = np.arange(6, dtype=np.int32).reshape(2, 3)
    found = handed([0, 1], {"tokens": tokens, "n_tokens": np.array([2, 3], np.int32)}, ("tokens",))
    assert found == [(0, tokens[0, :2].tobytes()), (1, tokens[1].tobytes())]


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": WHOLE[:1].astype(np.int32), "n_tokens": np.array([3])},
        {"tokens": WHOLE.astype(np.int32), "n_tokens": np.array([3])},
        {"tokens": WHOLE.astype(np.int32), "n_tokens": np.array([3, 4, 3, 3])},
        {"tokens": np.zeros((4, 0), np.int32), "n_tokens": np.zeros(4, np.int32)},
        {"tokens": np.zeros((0, 3), np.int32), "n_tokens": np.zeros(0, np.int32)},
    ],
    ids=[
        "too few rows",
        "too few counts",
        "more tokens than a row has",
        "rows of nothing",
        "no rows",
    ],
)
def test_answers_that_do_not_match_the_samples_are_refused(handed, wrong):
    with pytest.raises(ValueError, match="the SUT answered"):
        handed([0, 1], wrong, ("tokens",))


@pytest.mark.parametrize(
    ("name", "stream", "stated"),
    [
        ("llama3_1-8b", True, {}),
        ("llama3_1-8b", False, {"use_token_latencies": 0}),
        ("mock-tiny", True, {"use_token_latencies": 1, "ttft_latency": 2000}),  # 100 is its default
        ("mock-tiny", False, {}),
    ],
)
def test_a_key_of_the_open_division_is_stated_only_if_it_changes_loadgens_own(
    tmp_path, name, stream, stated
):
    made = mock_job.make(tmp_path, scenario="Server")
    job = mock_job.changed(made, benchmark=name, stream=stream)
    limits = {"ttft_latency": 2000, "tpot_latency": 100} if stream else {}
    found = loadgen.settings(job, limits)
    assert {key: found[key] for key in loadgen._OPEN_ONLY if key in found} == stated
