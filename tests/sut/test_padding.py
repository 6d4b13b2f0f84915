"""Where an answer ends."""

import numpy as np

from sut import padding

TOKENS = np.array([[5, 2, 7, 2], [5, 6, 7, 8], [2, 2, 2, 2], [5, 6, 3, 1]], np.int32)


def test_without_end_tokens_every_row_has_what_it_asked_for():
    assert padding.produced(TOKENS, np.array([4, 3, 2, 1]), ()).tolist() == [4, 3, 2, 1]


def test_an_answer_ends_with_its_first_end_token_or_its_last_token():
    assert padding.produced(TOKENS, np.array([4, 4, 4, 4]), [2]).tolist() == [2, 4, 1, 4]
    assert padding.produced(TOKENS, np.array([1, 3, 4, 4]), [2, 3]).tolist() == [1, 3, 1, 3]
    assert padding.produced(TOKENS[2:3, :1], np.array([4]), [2]).tolist() == [1]  # a library that stopped early
