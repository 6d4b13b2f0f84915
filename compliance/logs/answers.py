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
from formats import bounds

TWICE = "occurs twice"
"""The end of the sentence that reports a sample with two answers."""
_NO_ROW = "is not a row of seq_id, qsl_idx and data in hexadecimal"
_LARGEST = 16 << 30
_LARGEST_NUMBER = 1 << 62
# 5,000 images of 512 × 512 with their latents are 5.2 GB.
_MOST_PAYLOAD = 8 << 30
_MOST_ROWS = 20_000_000
# A row as LoadGen writes it. A row in another form is read as JSON.
_ROW = re.compile(
    r'\{ "seq_id" : ([0-9]{1,18}), "qsl_idx" : ([0-9]{1,18}), "data" : "([^"]*+)"'
    r'(?:, "token_data" : "([^"]*+)")?(?:, "token_count" : ([0-9]{1,18}))? \}'
)
_PLAIN_ROWS = re.compile(
    rb'^\{ "seq_id" : (\d{1,18}), "qsl_idx" : (\d{1,18}), "data" : "([^"\n]*+)" \},?$',
    re.MULTILINE,
)
_BLOCK = 1 << 20


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
        self._content = content
        self._starts = starts
        every = np.asarray(indices, np.int64)
        count = len(every)
        self._keys: Sequence[int] = range(count)
        rows = np.full(count, -1)
        if every.max(initial=-1) < count:  # usually each sample is answered once
            rows[every] = np.arange(count)
        if (rows < 0).any():
            keys, backwards = np.unique(every[::-1], return_index=True)
            self._keys = array("q", keys.tobytes())
            rows = count - 1 - backwards
        self._rows = array("q", rows.astype(np.int64).tobytes())

    def _place(self, index: object) -> int | None:
        """The position of `index` among the keys, which ascend; None if it is no key."""
        if not isinstance(index, int):
            return None
        keys = self._keys
        if 0 <= index < len(keys) and keys[index] == index:
            return index
        at = bisect_left(keys, index)
        return at if at < len(keys) and keys[at] == index else None

    def __contains__(self, index: object) -> bool:
        return self._place(index) is not None

    def __getitem__(self, index: int) -> bytes:
        if (at := self._place(index)) is None:
            raise KeyError(index)
        row = self._rows[at]
        return bytes(self._content[self._starts[row] : self._starts[row + 1]])

    def rows(self, size: int) -> np.ndarray | None:
        """The answers of the samples from 0 on, uint8 [n, size]. None: a sample has no answer, or
        one of another size.
        """
        if not isinstance(self._keys, range) or (np.diff(self._starts) != size).any():
            return None
        return np.frombuffer(self._content, np.uint8).reshape(-1, size)[self._rows]

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

    @property
    def seq_ids(self) -> list[int]:
        """The sample number of each row."""
        return [row.seq_id for row in self.rows]

    @property
    def indices(self) -> list[int]:
        """The qsl_idx of each row."""
        return [row.index for row in self.rows]


def read_accuracy(path: Path) -> Answers:
    """Reads the whole log, a JSON array with one row a line. Raises OSError if the file cannot be
    read.
    """
    bounds.check(path.name, min(path.stat().st_size, _LARGEST), bounds.LOG)
    problems = Problems()
    columns = _plain(path)
    lines = array("q")
    numbers: Sequence[int] = lines
    if columns is None:
        columns = _empty()
        for number, row in _rows(path, problems):
            columns.seq_ids.append(row.seq_id)
            columns.indices.append(row.index)
            lines.append(number)
            columns.content.extend(row.data)
            columns.starts.append(len(columns.content))
    else:
        numbers = range(2, len(columns.indices) + 2)
    payloads = Payloads(columns.content, columns.indices, columns.starts)
    if len(payloads) < len(columns.indices):
        _note_repeated(columns.indices, numbers, problems)
    return Answers(payloads, columns.seq_ids, columns.indices, tuple(problems))


@dataclass(frozen=True)
class _Columns:
    """The columns of a log: see Answers and Payloads."""

    content: bytearray
    seq_ids: array[int]
    indices: array[int]
    starts: array[int]

    def add(self, rows: list[tuple[bytes, bytes, bytes]]) -> None:
        """Appends the matches of `_PLAIN_ROWS`."""
        seq_ids, indices, digits = zip(*rows, strict=True)
        for column, numbers in ((self.seq_ids, seq_ids), (self.indices, indices)):
            column.frombytes(np.fromstring(b" ".join(numbers), np.int64, sep=" ").tobytes())
        sizes = np.fromiter(map(len, digits), np.int64, len(digits))
        if (sizes % 2).any():
            raise ValueError("a digit is missing")
        self.starts.frombytes((np.cumsum(sizes // 2) + len(self.content)).tobytes())
        self.content.extend(binascii.unhexlify(b"".join(digits)))


def _empty() -> _Columns:
    return _Columns(bytearray(), array("q"), array("q"), array("q", [0]))


def _plain(path: Path) -> _Columns | None:
    """The rows of a log that has the form in which LoadGen writes it. None: it has another form,
    or more than is read.
    """
    columns = _empty()
    with path.open("rb") as f:
        if f.read(2) != b"[\n":
            return None
        tail = b""
        while block := f.read(_BLOCK):
            whole, comma, tail = (tail + block).rpartition(b",\n")
            if len(tail) > _MOST_PAYLOAD or len(columns.indices) > _MOST_ROWS:
                return None
            if comma and not _taken(whole, columns):
                return None
    last, end, rest = tail.partition(b"\n]\n")
    return columns if end and not rest and _taken(last, columns) else None


def _taken(block: bytes, columns: _Columns) -> bool:
    """Whether every line of a block is a row, of which all but the last end with a comma. Appends
    them to `columns`.
    """
    rows = _PLAIN_ROWS.findall(block)
    ends = block.count(b"\n")
    if block.count(b",\n") != ends or block.endswith(b",") or len(rows) != ends + 1:
        return False
    try:
        columns.add(rows)
    except ValueError:  # no digits in hexadecimal
        return False
    return len(columns.content) <= _MOST_PAYLOAD and len(columns.indices) <= _MOST_ROWS


def read_logged(path: Path) -> LoggedAnswers:
    """Reads the log of a performance run, with every row, while `read_accuracy` keeps one row of
    each sample. Raises OSError if the file cannot be read.
    """
    problems = Problems()
    rows = tuple(row for _, row in _rows(path, problems))
    return LoggedAnswers(rows, tuple(problems))


def _rows(path: Path, problems: Problems) -> Iterator[tuple[int, Row]]:
    """Yield (number of its line, row) of each row of a log, and note the problems."""
    opened = closed = False
    previous_comma = True
    count = size = 0
    for number, text in read_lines(path, problems, _LARGEST, bounds.LOG):
        text = text.strip()
        if text in ("[", "]"):
            opened = opened or text == "["
            closed = text == "]"
            continue
        if closed or not previous_comma:
            problems.note(f"line {number} is outside the array or after a missing comma")
        previous_comma = text.endswith(",")
        row = _row(text.rstrip(","))
        if row is None:
            problems.note(f"line {number} {_NO_ROW}: {text[:40]!r}")
            continue
        count += 1
        size += len(row.data)
        if size > _MOST_PAYLOAD or count > _MOST_ROWS:
            problems.note(
                f"line {number}: more than {_MOST_PAYLOAD >> 30} GiB or {_MOST_ROWS} answers; the"
                " rest was not read"
            )
            break
        yield number, row
    if not opened or not closed:
        problems.note("the array is not closed: the file is cut")
    elif previous_comma and count:
        problems.note("the last row ends with a comma: rows are missing")


def read_ends(head: bytes, tail: bytes, repeats: bool = False) -> Answers:
    """Reads a truncated log: the rows that are whole in its head and tail, without their answers.

    Args:
        head, tail: the first and the last bytes of the log.
        repeats: whether a sample may occur again, as in a performance run.
    """
    problems = Problems()
    seq_ids = array("q")
    indices = array("q")
    first = head.split(b"\n")[:-1]
    last = tail.rstrip().split(b"\n")[1:]
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
            problems.note(f"a row {_NO_ROW}: {text[:40]!r}")
            continue
        seq_ids.append(row.seq_id)
        indices.append(row.index)
        empty += not row.data
    if seq_ids and empty == len(seq_ids):
        problems.note("every answer that is left is empty")
    if len(set(seq_ids)) != len(seq_ids):
        problems.note(f"a seq_id {TWICE}")
    if len(set(indices)) != len(indices) and not repeats:
        problems.note(f"a qsl_idx {TWICE}")
    return Answers({}, seq_ids, indices, tuple(problems))


def _note_repeated(indices: Sequence[int], numbers: Sequence[int], problems: Problems) -> None:
    """Notes each row whose sample an earlier row has answered. `numbers`: the line of each row."""
    every = np.asarray(indices, np.int64)
    order = np.argsort(every, kind="stable")
    again = np.sort(order[1:][every[order[1:]] == every[order[:-1]]])
    for row in again[:MOST_PROBLEMS].tolist():
        problems.note(f"line {numbers[row]}: qsl_idx {indices[row]} {TWICE}")


def _row(text: str) -> Row | None:
    """One line as a row; None if it is no row."""
    try:
        if match := _ROW.fullmatch(text):
            seq_id, index, digits, first_token, count = match.groups()
            return Row(
                int(seq_id),
                int(index),
                binascii.unhexlify(digits),
                None if first_token is None else binascii.unhexlify(first_token),
                None if count is None else int(count),
            )
        row = strict_json.parse(text)
        if not isinstance(row, dict):
            return None
        seq_id = row.get("seq_id")
        index = row.get("qsl_idx")
        digits = row.get("data")
        if type(seq_id) is not int or type(index) is not int or type(digits) is not str:
            return None
        if not (0 <= seq_id < _LARGEST_NUMBER and 0 <= index < _LARGEST_NUMBER):
            return None
        first_token = row.get("token_data")
        count = row.get("token_count")
        return Row(
            seq_id,
            index,
            binascii.unhexlify(digits),
            binascii.unhexlify(first_token) if isinstance(first_token, str) else None,
            count if type(count) is int else None,
        )
    except ValueError:
        return None
