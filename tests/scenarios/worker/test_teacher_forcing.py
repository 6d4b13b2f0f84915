"""A SUT that can force its own generation is judged by it, batch by batch."""

import numpy as np

from scenarios.worker.queries import teacher_forcing

INPUTS = {
    "input_ids": np.array([[5, 6, 7], [8, 9, 0], [4, 0, 0]], np.int32),
    "prompt_length": np.array([3, 2, 1], np.int32),
}
TOKENS = np.array([[1, 2], [3, 4], [2, 1]], np.int32)


class Whole:
    """Logits of a token: the one before it, and one more."""

    def prepare(self, inputs):
        return inputs

    def logits(self, tokens):
        return np.eye(12, dtype=np.float32)[tokens + 1]


class Forced(Whole):
    """The same by its own generation."""

    def __init__(self):
        self.batches = []

    def logits(self, tokens):
        raise AssertionError("whole sequences were computed")

    def forced_logits(self, batch, tokens):
        self.batches.append(batch)
        rows = np.arange(len(tokens))
        last = batch["input_ids"][rows, batch["prompt_length"] - 1]
        before = np.concatenate([last[:, None], tokens[:, :-1]], axis=1)
        return np.eye(12, dtype=np.float32)[before + 1]


def test_both_ways_give_the_logits_that_choose_each_token():
    sut = Forced()
    arguments = (INPUTS, {"tokens": TOKENS}, 2)
    whole = teacher_forcing.forced_logits(Whole(), *arguments)
    assert whole.argmax(-1).tolist() == [[8, 2], [10, 4], [5, 3]]
    np.testing.assert_array_equal(teacher_forcing.forced_logits(sut, *arguments), whole)
    # The last batch is full, too, and each row requests as many tokens as it is forced to take.
    assert [batch["input_ids"][:, 0].tolist() for batch in sut.batches] == [[5, 8], [4, 4]]
    assert [batch["max_new_tokens"].tolist() for batch in sut.batches] == [[2, 2], [2, 2]]


def test_own_logits_are_those_of_the_generation():
    own = teacher_forcing.own_logits(Forced(), INPUTS, TOKENS, 2)
    np.testing.assert_array_equal(own, teacher_forcing.own_logits(Whole(), INPUTS, TOKENS, 2))
    assert own[0].tolist() == [[1.0, 0.0], [1.0, 1.0]]
