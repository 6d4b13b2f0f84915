"""The candidates a reference keeps of each position's logits."""

import numpy as np

from scenarios.worker import reference


def test_the_candidates_are_those_of_a_whole_sort():
    logits = np.random.default_rng(0).random((3, 4, 500), np.float32)
    logits[..., [17, 30]] = 2  # of equal ones the first is the answer, as argmax has it
    expected = np.argsort(-logits, axis=-1, kind="stable")[..., : reference.TOP]
    found = reference._largest(logits)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)
