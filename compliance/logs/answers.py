"""Reads LoadGen's log of answers, mlperf_log_accuracy.json: the whole log, or the rows that
truncation left.
"""

from __future__ import annotations

import binascii
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compliance.logs import strict_json
from compliance.logs.lines import MOST_PROBLEMS, Problems, read_lines

TWICE = "stands there twice"
"""The end of the sentence that reports a sample with two answers."""
_LARGEST = 16 << 30
# 5,000 images of 512 × 512 with their latents are 5.2 GB.
_MOST_PAYLOAD, _MOST_ROWS = 8 << 30, 20_000_000
# A row as LoadGen writes it. A row in another form is read as JSON.
_ROW = re.compile(
    r'\{ "seq_id" : ([0-9]{1,18}), "qsl_idx" : ([0-9]{1,18}), "data" : "([0-9A-Fa-f]*)" \}'
)


class Payloads(Mapping[int, bytes]):
    """The answered bytes by qsl_idx. All are in one buffer, because a million small answers would
    be a million objects.
    """

    def __init__(self, content: bytearray, indices: Sequence[int], starts: Sequence[int]):
        """Keeps the last answer of each sample.

        Args:
            content: the answers of all rows, one after the other.
            indices: the qsl_idx of each row, in the file's order.
            starts: the place in `content` where each row's answer begins, and the end of the last
                one.
        """
        self._content, self._starts = content, starts
        keys, backwards = np.unique(np.asarray(indices, np.int64)[::-1], return_index=True)
        whole = len(keys) > 0 and keys[0] == 0 and keys[-1] == len(keys) - 1
        self._keys: Sequence[int] = range(len(keys)) if whole else array("q", keys.tobytes())
        self._rows = array("q", (len(indices) - 1 - backwards).astype(np.int64).tobytes())

    def _place(self, index: object) -> int | None:
        """The position of `index` among the keys, which ascend; None if it is no key."""
        if not isinstance(index, int):
            return None
        at = (
            index
            if 0 <= index < len(self._keys) and self._keys[index] == index
            else bisect_left(self._keys, index)
        )
        return at if at < len(self._keys) and self._keys[at] == index else None

    def __contains__(self, index: object) -> bool:
        return self._place(index) is not None

    def __getitem__(self, index: int) -> bytes:
        if (at := self._place(index)) is None:
            raise KeyError(index)
        row = self._rows[at]
        return bytes(self._content[self._starts[row] : self._starts[row + 1]])

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


@dataclass(frozen=True)
class Answers:
    """The rows of mlperf_log_accuracy.json.

    Attributes:
        payloads: qsl_idx → the answered bytes, the last ones if there are several. Empty if the log
            is truncated.
        seq_ids, indices: the sample number and the qsl_idx of each row, in the file's order.
        problems: the problems of the file, one sentence each, at most twenty.
    """

    payloads: Mapping[int, bytes]
    seq_ids: Sequence[int]
    indices: Sequence[int]
    problems: tuple[str, ...]


def read_accuracy(path: Path) -> Answers:
    """Reads the whole log, a JSON array with one row a line. Raises OSError if the file cannot be
    read.
    """
    problems, content = Problems(), bytearray()
    seq_ids, indices, starts, numbers = array("q"), array("q"), array("q", [0]), array("q")
    opened = closed = False
    previous_comma = True
    for number, text in read_lines(path, problems, _LARGEST):
        text = text.strip()
        if text in ("[", "]"):
            opened, closed = opened or text == "[", text == "]"
            continue
        if closed or not previous_comma:
            problems.note(f"line {number} stands outside the array or after a missing comma")
        previous_comma = text.endswith(",")
        row = _row(text.rstrip(","))
        if row is None:
            problems.note(
                f"line {number} is no row of seq_id, qsl_idx and data in hexadecimal: {text[:40]!r}"
            )
            continue
        if len(content) + len(row[2]) > _MOST_PAYLOAD or len(numbers) == _MOST_ROWS:
            problems.note(
                f"line {number}: more than {_MOST_PAYLOAD >> 30} GiB or {_MOST_ROWS} answers; the"
                " rest was not read"
            )
            break
        seq_ids.append(row[0])
        indices.append(row[1])
        content += row[2]
        starts.append(len(content))
        numbers.append(number)
    payloads = Payloads(content, indices, starts)
    if len(payloads) < len(indices):
        _note_repeated(indices, numbers, problems)
    if not opened or not closed:
        problems.note("the array is not closed: the file is cut")
    elif previous_comma and seq_ids:
        problems.note("the last row ends with a comma: rows are missing")
    return Answers(payloads, seq_ids, indices, tuple(problems))


def read_ends(head: bytes, tail: bytes, repeats: bool = False) -> Answers:
    """Reads a truncated log: the rows that are whole in its head and tail, without their answers.

    Args:
        head, tail: the first and the last bytes of the log.
        repeats: whether a sample may occur again, as in a performance run.
    """
    problems, seq_ids, indices = Problems(), array("q"), array("q")
    first, last = head.split(b"\n")[:-1], tail.rstrip().split(b"\n")[1:]
    twice = set(first) - {b"]"}  # the head and tail of a short log contain the same rows
    last = [text for text in last if text not in twice]
    empty = 0
    if not first or first[0].strip() != b"[":
        problems.note("it does not begin with a line of [")
    if not last or last[-1].strip() != b"]":
        problems.note("it does not end with a line of ]: the log is cut")
    for text in (*first[1:], *last[:-1]):
        row = _row(text.strip().rstrip(b",").decode("utf-8", "replace"))
        if row is None:
            problems.note(
                f"a row is none of seq_id, qsl_idx and data in hexadecimal: {text[:40]!r}"
            )
            continue
        seq_ids.append(row[0])
        indices.append(row[1])
        empty += not row[2]
    if seq_ids and empty == len(seq_ids):
        problems.note("every answer that is left is empty")
    for name, numbers in (("seq_id", seq_ids), ("qsl_idx", indices)):
        if len(set(numbers)) != len(numbers) and not (repeats and numbers is indices):
            problems.note(f"a {name} stands there twice")
    return Answers({}, seq_ids, indices, tuple(problems))


def _note_repeated(indices: Sequence[int], numbers: Sequence[int], problems: Problems) -> None:
    """Notes each row whose sample an earlier row has answered. `numbers`: the line of each row."""
    every = np.asarray(indices, np.int64)
    order = np.argsort(every, kind="stable")
    again = np.sort(order[1:][every[order[1:]] == every[order[:-1]]])
    for row in again[:MOST_PROBLEMS].tolist():
        problems.note(f"line {numbers[row]}: qsl_idx {indices[row]} {TWICE}")


def _row(text: str) -> tuple[int, int, bytes] | None:
    """(seq_id, qsl_idx, answer) of one line; None if it is no row."""
    if match := _ROW.fullmatch(text):
        seq_id, index, digits = int(match[1]), int(match[2]), match[3]
    else:
        try:
            row = strict_json.parse(text)
        except ValueError:
            return None
        if not isinstance(row, dict) or [
            type(row.get(key)) for key in ("seq_id", "qsl_idx", "data")
        ] != [int, int, str]:
            return None
        seq_id, index, digits = row["seq_id"], row["qsl_idx"], row["data"]
        if not (0 <= seq_id < 1 << 62 and 0 <= index < 1 << 62):
            return None
    try:
        return seq_id, index, binascii.unhexlify(digits)
    except ValueError:
        return None
