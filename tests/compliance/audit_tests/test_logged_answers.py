"""The logged answers of a compliance test: their end tokens, and the different ones."""

from __future__ import annotations

import numpy as np

from compliance.audit_tests import logged_answers
from compliance.audit_tests.logged_answers import Row
from compliance.scoring import accuracy


def test_end_tokens_are_counted_from_the_end_alone() -> None:
    def row(*tokens: int) -> Row:
        return Row(0, 0, np.array(tokens, np.int32).tobytes())

    ends = frozenset({2, 107})
    assert [
        logged_answers.end_tokens(r, ends)
        for r in (row(5), row(2, 5), row(5, 2), row(5, 2, 107), row(2, 2), row())
    ] == [
        0,
        0,
        1,
        2,
        2,
        0,
    ]


def test_each_different_answer_is_judged_once() -> None:
    rows = tuple(
        Row(n, index, data)
        for n, (index, data) in enumerate([(0, b"a"), (1, b"c"), (0, b"b"), (0, b"a")])
    )
    assert list(accuracy.variants((row.index, row.data) for row in rows)) == [
        {0: b"a", 1: b"c"},
        {0: b"b"},
    ]
