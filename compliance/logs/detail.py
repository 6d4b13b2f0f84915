"""LoadGen's logs as values: streaming, memory moderate. Bad content is recorded under `problems`, never raised; no file: OSError."""

from __future__ import annotations

import binascii
import json
import math
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from compliance.logs import strict_json

_MARK = ":::MLLOG "
# No line LoadGen writes comes near: the longest are the loaded set of a full data set (detail) and an image's bytes (accuracy).
_LONGEST_LINE = 64 << 20
_MOST_PROBLEMS = 20
TWICE = "stands there twice"
"""How the problem of a sample with two answers ends."""
# A file with so many is read no further: each takes time, and it says enough.
_MOST_SEEN = 10_000
# All others stand once in the log of one test.
_MAY_REPEAT = re.compile(r"generic_message|loaded_qsl_set|generated_\w+|result_invalid_reason|logger_\w+|power_\w+|(error|warning)\w*")
_LARGEST_DETAIL, _LARGEST_SUMMARY, _LARGEST_ANSWERS = 256 << 20, 16 << 20, 16 << 30
_MOST_PAYLOAD, _MOST_ROWS = 4 << 30, 20_000_000
# A row as LoadGen writes it; one that is written otherwise is read as JSON.
_ROW = re.compile(r'\{ "seq_id" : ([0-9]{1,18}), "qsl_idx" : ([0-9]{1,18}), "data" : "([0-9A-Fa-f]*)" \}')


@dataclass(frozen=True)
class Line:
    """One entry of the detail log. `time_ms`: since the test began."""

    number: int
    key: str
    value: Any
    time_ms: float


@dataclass(frozen=True)
class Detail:
    """mlperf_log_detail.txt.

    Attributes:
        values: the last value of each key.
        occurrences: every entry of each key, in order.
        errors, warnings: entries LoadGen marked so.
        problems: what is wrong with the file itself, one sentence each, at most twenty.
    """

    values: dict[str, Any]
    occurrences: dict[str, tuple[Line, ...]]
    errors: tuple[Line, ...]
    warnings: tuple[Line, ...]
    problems: tuple[str, ...]

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    def all(self, key: str) -> list[Any]:
        return [line.value for line in self.occurrences.get(key, ())]

    def sharing(self, other: Detail) -> Detail:
        """The same, whose lists are `other`'s own where they are equal: of a million samples a loaded set takes 40 MB."""
        key = "loaded_qsl_set"
        lines, theirs = self.occurrences.get(key, ()), other.get(key)
        if not isinstance(theirs, list) or self.get(key) != theirs:
            return self
        last = replace(lines[-1], value=theirs)
        return replace(self, values={**self.values, key: theirs}, occurrences={**self.occurrences, key: (*lines[:-1], last)})

    def line(self, key: str) -> int | None:
        """The number of the line `get` takes its value from."""
        return self.occurrences[key][-1].number if self.occurrences.get(key) else None

    def number(self, key: str) -> float | None:
        """The value if it is a finite number (an int stays exact), else None: a text or nan where a number belongs counts as absent."""
        value = self.values.get(key)
        usable = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e20
        return value if usable else None


@dataclass(frozen=True)
class Summary:
    """mlperf_log_summary.txt: the text after each label, and the line it stands in; `text` is the whole file with problems replaced."""

    values: dict[str, str]
    text: str
    problems: tuple[str, ...]
    lines: dict[str, int] = field(default_factory=dict)


class Payloads(Mapping[int, bytes]):
    """qsl_idx → the bytes answered, all in one buffer: a million small answers are not a million objects."""

    def __init__(self, content: bytearray, indices: Sequence[int], starts: Sequence[int]):
        """indices: of each row, in the file's order. starts: where each row's answer begins in `content`, and where the last ends."""
        self._content, self._starts = content, starts
        keys, backwards = np.unique(np.asarray(indices, np.int64)[::-1], return_index=True)
        whole = len(keys) > 0 and keys[0] == 0 and keys[-1] == len(keys) - 1
        self._keys: Sequence[int] = range(len(keys)) if whole else array("q", keys.tobytes())
        self._rows = array("q", (len(indices) - 1 - backwards).astype(np.int64).tobytes())

    def _place(self, index: object) -> int | None:
        """Among the keys, which are in order."""
        if not isinstance(index, int):
            return None
        at = index if 0 <= index < len(self._keys) and self._keys[index] == index else bisect_left(self._keys, index)
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
    """mlperf_log_accuracy.json, whole.

    Attributes:
        payloads: the bytes answered for each qsl_idx (the last, where there are several).
        seq_ids, indices: of each row, in the file's order.
    """

    payloads: Mapping[int, bytes]
    seq_ids: Sequence[int]
    indices: Sequence[int]
    problems: tuple[str, ...]


class _Problems(list[str]):
    """Keeps the first twenty. `seen`: how many there were."""

    seen = 0

    def note(self, problem: str) -> None:
        self.seen += 1
        if len(self) < _MOST_PROBLEMS:
            self.append(problem)


def _lines(path: Path, problems: _Problems, most: int) -> Iterator[tuple[int, str]]:
    """(number, text without its end) of each line that is UTF-8, of a file of at most `most` bytes."""
    with path.open("rb") as f:
        number = size = 0
        while raw := f.readline(_LONGEST_LINE):
            number += 1
            size += len(raw)
            if problems.seen > _MOST_SEEN:
                return
            if size > most:
                problems.note(f"line {number} lies behind the first {most >> 20} MiB, which are read: LoadGen's logs are smaller")
                return
            if not raw.endswith(b"\n"):
                if len(raw) == _LONGEST_LINE:
                    problems.note(f"line {number} is longer than {_LONGEST_LINE >> 20} MiB: the rest is not read")
                    return
                problems.note(f"line {number} is cut: the file does not end with a line end")
            if b"\0" in raw:
                problems.note(f"line {number} holds a NUL byte: it is no text")
            try:
                yield number, raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as e:
                problems.note(f"line {number} is not UTF-8 (byte {e.start})")
        if not number:
            problems.note("the file is empty")


def read_detail(path: Path) -> Detail:
    """Every line is `:::MLLOG {"key": …, "value": …, "metadata": {…}}`. Raises OSError if the file cannot be read."""
    problems, found, errors, warnings, writers = _Problems(), {}, [], [], set()  # type: ignore[var-annotated]
    last_ms, odd, early = -math.inf, "", ""
    for number, text in _lines(path, problems, _LARGEST_DETAIL):
        entry, why = _entry(text)
        if entry is None:
            problems.note(f"line {number} is no MLLOG entry{why}: {text[:40]!r}")
            continue
        line = Line(number, entry["key"], entry.get("value"), _time_ms(entry.get("time_ms")))
        found.setdefault(line.key, []).append(line)
        is_error, is_warning = (entry["metadata"].get(f"is_{kind}") or line.key.startswith(kind) for kind in ("error", "warning"))
        if is_error:
            errors.append(line)
        if is_warning:
            warnings.append(line)
        odd = odd or next((f"line {number}: {why}" for why in _odd(entry)), "")
        if not is_error and not is_warning:  # those may come from other threads
            if not line.time_ms >= last_ms:
                early = early or f"line {number} is of {line.time_ms:g} ms, after one of {last_ms:g} ms: LoadGen logs in order"
            last_ms = line.time_ms
        writers.add(entry["metadata"].get("pid"))
    for first in filter(None, (odd, early)):
        problems.note(first)
    if len(writers) > 1:
        problems.note(f"it was written by {len(writers)} processes: more than one run in one file, or lines put in")
    for key, lines in found.items():
        if len(lines) > 1 and not _MAY_REPEAT.fullmatch(key):
            problems.note(f"{key[:80]} stands {len(lines)} times, which LoadGen logs once: more than one run in one file, or a line put in")
    values = {key: lines[-1].value for key, lines in found.items()}
    return Detail(values, {k: tuple(v) for k, v in found.items()}, tuple(errors), tuple(warnings), tuple(problems))


def _odd(entry: dict[str, Any]) -> Iterator[str]:
    """How an entry differs from one that LoadGen writes (loadgen/logging.cc, AsyncLog)."""
    metadata = entry["metadata"]
    if entry.get("namespace") != "mlperf::logging" or entry.get("event_type") not in ("POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"):
        yield "the entry has another namespace or event_type than LoadGen's"
    if any(type(metadata.get(key)) is not bool for key in ("is_error", "is_warning")):
        yield "is_error and is_warning are true or false in each of LoadGen's entries"
    if any(type(metadata.get(key)) is not int for key in ("pid", "tid", "line_no")):
        yield "pid, tid or line_no is no number"
    if not str(metadata.get("file")).endswith((".cc", ".h")):
        yield f"it was logged by {str(metadata.get('file'))[:40]}, no source file of LoadGen"


def _time_ms(value: Any) -> float:
    return float(value) if type(value) in (int, float) and abs(value) < 1e20 else float("nan")


def _entry(text: str) -> tuple[dict[str, Any] | None, str]:
    """(the entry, "") or (None, why it is none, in brackets)."""
    if not text.startswith(_MARK):
        return None, ""
    try:
        entry = strict_json.parse(text[len(_MARK) :])
    except json.JSONDecodeError:
        return None, ""
    except ValueError as e:
        return None, f" ({e})"
    good = isinstance(entry, dict) and isinstance(entry.get("key"), str) and isinstance(entry.get("metadata"), dict)
    return (entry, "") if good else (None, "")


def read_summary(path: Path) -> Summary:
    """`label : value` lines; a line of `key: value` inside a sentence does no harm, its label is in no table. Raises OSError."""
    problems = _Problems()
    texts: list[str] = []
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, text in _lines(path, problems, _LARGEST_SUMMARY):
        texts.append(text)
        label, colon, value = text.partition(":")
        if not colon:
            continue
        label = label.strip()
        if label.startswith("* "):  # a sentence: early stopping says one of each latency
            continue
        if label in values and values[label] != value.strip():
            problems.note(f"{label[:60]!r} stands twice: {values[label][:60]} and {value.strip()[:60]}")
        values[label], lines[label] = value.strip(), number
    return Summary(values, "\n".join(texts), tuple(problems), lines)


def read_accuracy(path: Path) -> Answers:
    """The untruncated log: one JSON array, one row a line. Raises OSError."""
    problems, content = _Problems(), bytearray()
    seq_ids, indices, starts, numbers = array("q"), array("q"), array("q", [0]), array("q")
    opened = closed = False
    previous_comma = True
    for number, text in _lines(path, problems, _LARGEST_ANSWERS):
        text = text.strip()
        if text in ("[", "]"):
            opened, closed = opened or text == "[", text == "]"
            continue
        if closed or not previous_comma:
            problems.note(f"line {number} stands outside the array or after a missing comma")
        previous_comma = text.endswith(",")
        row = _row(text.rstrip(","))
        if row is None:
            problems.note(f"line {number} is no row of seq_id, qsl_idx and data in hexadecimal: {text[:40]!r}")
            continue
        if len(content) + len(row[2]) > _MOST_PAYLOAD or len(numbers) == _MOST_ROWS:
            problems.note(f"line {number}: more than {_MOST_PAYLOAD >> 30} GiB or {_MOST_ROWS} answers; the rest was not read")
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
    """The rows that are whole in the first and the last bytes of an accuracy log, without their answers. That it is cut is no problem.

    Args:
        repeats: a sample may stand there again, as in a performance run.
    """
    problems, seq_ids, indices = _Problems(), array("q"), array("q")
    first, last = head.split(b"\n")[:-1], tail.rstrip().split(b"\n")[1:]
    twice = set(first) - {b"]"}  # of a short log both ends are cut from the same rows
    last = [text for text in last if text not in twice]
    empty = 0
    if not first or first[0].strip() != b"[":
        problems.note("it does not begin with a line of [")
    if not last or last[-1].strip() != b"]":
        problems.note("it does not end with a line of ]: the log is cut")
    for text in (*first[1:], *last[:-1]):
        row = _row(text.strip().rstrip(b",").decode("utf-8", "replace"))
        if row is None:
            problems.note(f"a row is none of seq_id, qsl_idx and data in hexadecimal: {text[:40]!r}")
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


def _note_repeated(indices: Sequence[int], numbers: Sequence[int], problems: _Problems) -> None:
    every = np.asarray(indices, np.int64)
    order = np.argsort(every, kind="stable")
    again = np.sort(order[1:][every[order[1:]] == every[order[:-1]]])
    for row in again[:_MOST_PROBLEMS].tolist():
        problems.note(f"line {numbers[row]}: qsl_idx {indices[row]} {TWICE}")


def _row(text: str) -> tuple[int, int, bytes] | None:
    """(seq_id, qsl_idx, answer); None: no row. With other fields or other blanks than LoadGen's it is read as JSON."""
    if match := _ROW.fullmatch(text):
        seq_id, index, digits = int(match[1]), int(match[2]), match[3]
    else:
        try:
            row = strict_json.parse(text)
        except ValueError:
            return None
        if not isinstance(row, dict) or [type(row.get(key)) for key in ("seq_id", "qsl_idx", "data")] != [int, int, str]:
            return None
        seq_id, index, digits = row["seq_id"], row["qsl_idx"], row["data"]
        if not (0 <= seq_id < 1 << 62 and 0 <= index < 1 << 62):
            return None
    try:
        return seq_id, index, binascii.unhexlify(digits)
    except ValueError:
        return None
