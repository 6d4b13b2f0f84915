"""Reads the logged answers of a compliance test, and compares them with the accuracy run's byte by
byte.
"""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from compliance.scoring.value import AnswerBytes

_ROW = re.compile(
    rb'\{ "seq_id" : (\d{1,18}), "qsl_idx" : (\d{1,18}), "data" : "((?:[0-9A-Fa-f]{2})*)"'
    rb'(?:, "token_data" : "((?:[0-9A-Fa-f]{2})*)")?(?:, "token_count" : (\d{1,18}))?[^{}]*\},?'
)
_LONGEST_LINE, _MOST_PROBLEMS = 64 << 20, 20


@dataclass(frozen=True)
class Row:
    """One logged answer.

    Attributes:
        seq_id: the sample's number in the test.
        index: the sample's index in the query sample library.
        data: the answered bytes.
        first_token: the bytes of the first token, as it was reported. None: none was.
        token_count: the number of tokens, as it was reported. None: none was.
    """

    seq_id: int
    index: int
    data: bytes
    first_token: bytes | None = None
    token_count: int | None = None


@dataclass(frozen=True)
class LoggedAnswers:
    """The rows of a performance run's mlperf_log_accuracy.json. A sample that was issued several
    times may occur several times.

    Attributes:
        rows: all rows that could be read, in the file's order.
        problems: the problems of the file, one sentence each, at most twenty.
    """

    rows: tuple[Row, ...]
    problems: tuple[str, ...]


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


def read(path: Path) -> LoggedAnswers:
    """Read a log of answers and keeps every row, while logs.read_accuracy keeps one row of each
    sample. Raises OSError if the log cannot be read.
    """
    rows: list[Row] = []
    problems: list[str] = []
    last = b""
    with path.open("rb") as f:
        for number, line in enumerate(iter(partial(f.readline, _LONGEST_LINE), b""), 1):
            last = line.strip()
            if match := _ROW.fullmatch(last):
                rows.append(_row(match))
            elif last != (b"[" if number == 1 else b"]") and len(problems) < _MOST_PROBLEMS:
                problems.append(
                    f"line {number} is no row of seq_id, qsl_idx and data in hexadecimal:"
                    f" {last[:40]!r}"
                )
    if last != b"]":
        problems.append("the array is not closed: the file is cut")
    return LoggedAnswers(tuple(rows), tuple(problems))


def _row(match: re.Match[bytes]) -> Row:
    seq_id, index, data, first_token, token_count = match.groups()
    return Row(
        int(seq_id),
        int(index),
        binascii.unhexlify(data),
        None if first_token is None else binascii.unhexlify(first_token),
        None if token_count is None else int(token_count),
    )


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
