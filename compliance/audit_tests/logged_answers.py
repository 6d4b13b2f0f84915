"""Compares the logged answers of a compliance test with the accuracy run's, byte by byte."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compliance.logs import Row
from compliance.scoring.value import AnswerBytes


@dataclass(frozen=True)
class Compared:
    """A test's answers compared with the accuracy run's.

    Attributes:
        equal: the number of answers that are the same in every byte.
        different: the rows with other bytes.
        unknown: the indices of samples that the accuracy run did not answer.
    """

    equal: int
    different: tuple[Row, ...]
    unknown: tuple[int, ...]

    @property
    def exact(self) -> bool:
        """True if there are answers, and each one equals the accuracy run's answer to the same
        sample.
        """
        return bool(self.equal) and not self.different and not self.unknown


def compare(rows: tuple[Row, ...], answers: AnswerBytes) -> Compared:
    """Compare the rows with the accuracy run's answers. `answers`: index in the query sample
    library → the answered bytes.
    """
    answered = [row for row in rows if row.index in answers]
    different = tuple(row for row in answered if answers[row.index] != row.data)
    unknown = tuple(row.index for row in rows if row.index not in answers)
    return Compared(len(answered) - len(different), different, unknown)


def mean_length(rows: tuple[Row, ...], answers: AnswerBytes) -> tuple[float, float] | None:
    """(mean bytes of a test's answers, mean bytes of the accuracy run's answers to the same
    samples); None if there is no answer to compare.
    """
    answered = [row for row in rows if row.index in answers]
    if not answered:
        return None
    test = sum(len(row.data) for row in answered)
    reference = sum(len(answers[row.index]) for row in answered)
    return test / len(answered), reference / len(answered)


def end_tokens(row: Row, ends: frozenset[int]) -> int:
    """The number of end tokens at the end of an int32 answer."""
    whole = len(row.data) // 4 * 4
    tokens = np.frombuffer(row.data[:whole], np.int32).tolist()
    count = 0
    for token in reversed(tokens):
        if token not in ends:
            break
        count += 1
    return count
