"""LoadGen's logs as values: streaming, memory moderate. Bad content is recorded under `problems`, never raised; no file: OSError."""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MARK = ":::MLLOG "
# No line LoadGen writes comes near: the longest are the loaded set of a full data set (detail) and an image's bytes (accuracy).
_LONGEST_LINE = 64 << 20
_MOST_PROBLEMS = 20


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

    def number(self, key: str) -> float | None:
        """The value if it is a finite number (an int stays exact), else None: a text or nan where a number belongs counts as absent."""
        value = self.values.get(key)
        usable = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e20
        return value if usable else None


@dataclass(frozen=True)
class Summary:
    """mlperf_log_summary.txt: the text after each label; `text` is the whole file with problems replaced."""

    values: dict[str, str]
    text: str
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Answers:
    """mlperf_log_accuracy.json, whole.

    Attributes:
        payloads: the bytes answered for each qsl_idx (the last, where there are several).
        seq_ids, indices: of each row, in the file's order.
    """

    payloads: dict[int, bytes]
    seq_ids: tuple[int, ...]
    indices: tuple[int, ...]
    problems: tuple[str, ...]


class _Problems(list[str]):
    """Keeps the first twenty."""

    def note(self, problem: str) -> None:
        if len(self) < _MOST_PROBLEMS:
            self.append(problem)


def _lines(path: Path, problems: _Problems) -> Iterator[tuple[int, str]]:
    """(number, text without its end) of each line that is UTF-8."""
    with path.open("rb") as f:
        number = 0
        while raw := f.readline(_LONGEST_LINE):
            number += 1
            if not raw.endswith(b"\n"):
                problems.note(
                    f"line {number} is cut: the file does not end with a line end"
                    if len(raw) < _LONGEST_LINE
                    else f"line {number} is longer than 64 MiB"
                )
            try:
                yield number, raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as e:
                problems.note(f"line {number} is not UTF-8 (byte {e.start})")
        if not number:
            problems.note("the file is empty")


def read_detail(path: Path) -> Detail:
    """Every line is `:::MLLOG {"key": …, "value": …, "metadata": {…}}`. Raises OSError if the file cannot be read."""
    problems, found, errors, warnings = _Problems(), {}, [], []  # type: ignore[var-annotated]
    for number, text in _lines(path, problems):
        entry = _entry(text)
        if entry is None:
            problems.note(f"line {number} is no MLLOG entry: {text[:40]!r}")
            continue
        time_ms = entry.get("time_ms")
        line = Line(number, entry["key"], entry.get("value"), time_ms if isinstance(time_ms, int | float) else float("nan"))
        found.setdefault(line.key, []).append(line)
        if entry["metadata"].get("is_error"):
            errors.append(line)
        if entry["metadata"].get("is_warning"):
            warnings.append(line)
    for key in ("loadgen_version", "test_datetime", "result_validity"):
        if len(found.get(key, ())) > 1:
            problems.note(f"{key} stands {len(found[key])} times: more than one run in one file")
    values = {key: lines[-1].value for key, lines in found.items()}
    return Detail(values, {k: tuple(v) for k, v in found.items()}, tuple(errors), tuple(warnings), tuple(problems))


def _entry(text: str) -> dict[str, Any] | None:
    if not text.startswith(_MARK):
        return None
    entry = _json(text[len(_MARK) :])
    good = isinstance(entry, dict) and isinstance(entry.get("key"), str) and isinstance(entry.get("metadata"), dict)
    return entry if good else None


def _json(text: str) -> Any:
    """None for what is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_summary(path: Path) -> Summary:
    """`label : value` lines; a line of `key: value` inside a sentence does no harm, its label is in no table. Raises OSError."""
    problems = _Problems()
    texts = [text for _, text in _lines(path, problems)]
    values: dict[str, str] = {}
    for text in texts:
        label, colon, value = text.partition(":")
        if not colon:
            continue
        label = label.strip()
        if label in values and values[label] != value.strip():
            problems.note(f"{label!r} stands twice: {values[label]} and {value.strip()}")
        values[label] = value.strip()
    return Summary(values, "\n".join(texts), tuple(problems))


def read_accuracy(path: Path) -> Answers:
    """The untruncated log: one JSON array, one row a line. Raises OSError."""
    problems, payloads, seq_ids, indices = _Problems(), {}, [], []
    opened = closed = False
    previous_comma = True
    for number, text in _lines(path, problems):
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
        seq_id, index, data = row
        if index in payloads:
            problems.note(f"line {number}: qsl_idx {index} stands there twice")
        payloads[index] = data
        seq_ids.append(seq_id)
        indices.append(index)
    if not opened or not closed:
        problems.note("the array is not closed: the file is cut")
    elif previous_comma and seq_ids:
        problems.note("the last row ends with a comma: rows are missing")
    return Answers(payloads, tuple(seq_ids), tuple(indices), tuple(problems))


def _row(text: str) -> tuple[int, int, bytes] | None:
    row = _json(text)
    if not isinstance(row, dict) or [type(row.get(key)) for key in ("seq_id", "qsl_idx", "data")] != [int, int, str]:
        return None
    try:
        return row["seq_id"], row["qsl_idx"], binascii.unhexlify(row["data"])
    except ValueError:
        return None
