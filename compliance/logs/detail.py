"""LoadGen's detail log, mlperf_log_detail.txt: every entry with its key, value, line and time."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from compliance.logs import strict_json
from compliance.logs.lines import Problems, read_lines
from formats import bounds

_MARK = ":::MLLOG "
# LoadGen ends each entry so. It escapes nothing (logging.cc, ArgValueTransform), so a text may have
# line ends, backslashes and quotes, and a number may be inf or nan.
_END = "}}"
_MOST_LINE_ENDS = 8
_RAW = re.compile(
    r'(\{"key": "[^"\\]+", "value": )(?:"(.*)"|(-?(?:inf(?:inity)?|nan)))(, "time_ms": .*)',
    re.DOTALL | re.IGNORECASE,
)
# A line whose value needs no care. A line in another form is read as JSON, which takes ten times as
# long.
_WHOLE = r"-?(?:0|[1-9]\d{0,17})"
_REAL = r"-?(?:0|[1-9]\d{0,39})(?:\.\d{1,40}(?:e[+-]\d\d)?|e[+-]\d\d)"
_TEXT = r'[^"\\\x00-\x1f]'
_PLAIN = re.compile(
    rf'\{{"key": "(?!error|warning)({_TEXT}+)",'
    rf' "value": (?:"({_TEXT}*)"|({_WHOLE})|({_REAL})|(true|false)), "time_ms": ({_REAL}),'
    r' "namespace": "mlperf::logging",'
    r' "event_type": "(?:POINT_IN_TIME|INTERVAL_START|INTERVAL_END)",'
    r' "metadata": \{"is_error": (true|false), "is_warning": (true|false),'
    rf' "file": "{_TEXT}*\.(?:cc|h)", "line_no": {_WHOLE},'
    rf' "pid": ({_WHOLE}), "tid": {_WHOLE}\}}\}}',
    re.ASCII,
)
LOADED_SET = "loaded_qsl_set"
"""The key of the indices of a loaded set. Their value is an array of 8 bytes a sample, because a
set may have a million of them; another value is a list as in JSON.
"""
_SET = re.compile(
    rf'(\{{"key": "{LOADED_SET}", "value": )\[(\d(?:[\d, ]*\d)?)\](, .*)', re.DOTALL | re.ASCII
)
# The beginning of each line before LoadGen 1.0.
_EARLIER = re.compile(r'"pid": \d+, "tid": \d+, "ts": \d+ns : ', re.ASCII)
_VERSION, _ERROR = "version : ", "ERROR : "
# Keys that may occur several times in a log. All others occur once.
_MAY_REPEAT = re.compile(
    r"generic_message|loaded_qsl_set|generated_\w+|result_invalid_reason"
    r"|logger_\w+|power_\w+|(error|warning)\w*"
)
# LoadGen has the times before its log begins as unsigned nanoseconds, which wrap around.
_WRAPPED_MS = 2**64 / 1e6
_EVENTS = ("POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END")
_LARGEST, _MOST_DIGITS = 256 << 20, 18


class Indices(array):
    """Indices of samples in 8 bytes each, whose text is that of a list."""

    def __repr__(self) -> str:
        return repr(self.tolist())


class Line(NamedTuple):
    """One entry of the detail log.

    Attributes:
        number: the number of its line, from 1.
        time_ms: the time since the test began, by the log's own clock; NaN if the entry has none.
    """

    number: int
    key: str
    value: Any
    time_ms: float


@dataclass(frozen=True)
class Detail:
    """The entries of mlperf_log_detail.txt.

    Attributes:
        values: the last value of each key.
        occurrences: every entry of each key, in order.
        errors, warnings: the entries that LoadGen marked as such, or whose key begins with that
            word.
        problems: the problems of the file, one sentence each, at most twenty.
        last_line: the number of the file's last line.
        not_judged: a sentence, if a LoadGen before 1.0 wrote the log, whose form is not judged;
            else empty.
    """

    values: dict[str, Any]
    occurrences: dict[str, tuple[Line, ...]]
    errors: tuple[Line, ...]
    warnings: tuple[Line, ...]
    problems: tuple[str, ...]
    last_line: int = 0
    not_judged: str = ""

    def stopped(self, test: str) -> str:
        """The sentence that names the last line of a log without an end; empty if it has its end.

        LoadGen logs power_end when the last query was answered, and then its results. An accuracy
        test has no results (loadgen.cc).
        """
        keys = self.occurrences
        if not keys or "num_errors" in keys:
            return ""
        if any(key.startswith("result_") for key in keys):
            return ""
        if "power_end" not in keys:
            return f"the test did not end: the log stops at line {self.last_line}"
        if test == "accuracy" or self.get("effective_test_mode") == "AccuracyOnly":
            return ""
        return f"the log stops at line {self.last_line}, before LoadGen's verdict"

    def get(self, key: str, default: Any = None) -> Any:
        """The last value of a key."""
        return self.values.get(key, default)

    def all(self, key: str) -> list[Any]:
        """Every value of a key, in order."""
        return [line.value for line in self.occurrences.get(key, ())]

    def sharing(self, other: Detail) -> Detail:
        """The same log. If its loaded set equals that of `other`, both share one."""
        lines, theirs = self.occurrences.get(LOADED_SET, ()), other.get(LOADED_SET)
        if theirs is None or self.get(LOADED_SET) != theirs:
            return self
        last = lines[-1]._replace(value=theirs)
        values = {**self.values, LOADED_SET: theirs}
        occurrences = {**self.occurrences, LOADED_SET: (*lines[:-1], last)}
        return replace(self, values=values, occurrences=occurrences)

    def line(self, key: str) -> int | None:
        """The number of the line that `get` takes its value from; None if the key is not there."""
        return self.occurrences[key][-1].number if self.occurrences.get(key) else None

    def number(self, key: str) -> float | None:
        """The value, if it is a finite number below 1e20; an int stays exact. None if it is a text,
        NaN or missing.
        """
        value = self.values.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        return value if abs(value) < 1e20 else None


def read_detail(path: Path) -> Detail:
    """Reads a detail log, whose lines are `:::MLLOG {"key": …, "value": …, "metadata": {…}}`.
    Raises OSError if it cannot be read.
    """
    problems = Problems()
    entries: dict[str, list[Line]] = {}
    errors: list[Line] = []
    warnings: list[Line] = []
    writers = set()
    last_ms = -math.inf
    odd = early = ""
    texts = _whole_entries(read_lines(path, problems, _LARGEST, bounds.JSON))
    for number, text in texts:
        if number == 1 and _EARLIER.match(text):
            sentence = _earlier_form(chain([(number, text)], texts))
            return Detail({}, {}, (), (), (), not_judged=sentence)
        entry = _entry(text)
        if isinstance(entry, str):
            if number != problems.cut:
                problems.note(f"line {number} is not an MLLOG entry{entry}: {text[:40]!r}")
            continue
        line = Line(number, entry.key, entry.value, _time_ms(entry.time_ms))
        entries.setdefault(line.key, []).append(line)
        is_error = entry.is_error or line.key.startswith("error")
        is_warning = entry.is_warning or line.key.startswith("warning")
        if is_error:
            errors.append(line)
        if is_warning:
            warnings.append(line)
        if not odd and entry.odd:
            odd = f"line {number}: {entry.odd}"
        if not is_error and not is_warning:  # those may come from other threads
            if not early and not line.time_ms >= last_ms:
                early = (
                    f"line {number} is of {line.time_ms:g} ms, after one of {last_ms:g} ms:"
                    " LoadGen logs in order"
                )
            last_ms = line.time_ms
        writers.add(entry.pid)
    for first in filter(None, (odd, early)):
        problems.note(first)
    if len(writers) > 1:
        problems.note(
            f"{len(writers)} processes wrote it: it has more than one run, or inserted lines"
        )
    for problem in _repeated(entries):
        problems.note(problem)
    values = {key: lines[-1].value for key, lines in entries.items()}
    occurrences = {key: tuple(lines) for key, lines in entries.items()}
    return Detail(
        values,
        occurrences,
        tuple(errors),
        tuple(warnings),
        tuple(problems),
        last_line=problems.last,
    )


def _repeated(entries: dict[str, list[Line]]) -> Iterator[str]:
    """Yield a sentence for each key that occurs several times, although LoadGen logs it once."""
    for key, lines in entries.items():
        if len(lines) > 1 and not _MAY_REPEAT.fullmatch(key):
            yield (
                f"{key[:80]} occurs {len(lines)} times, and LoadGen logs it once: the file has more"
                " than one run, or an inserted line"
            )


def _whole_entries(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """(number of the first line, text) of each entry: a line, with the next ones if a value has
    line ends.
    """
    first, text = 0, ""
    for number, line in lines:
        is_open = text.startswith(_MARK) and not text.endswith(_END)
        if is_open and not line.startswith(_MARK) and text.count("\n") < _MOST_LINE_ENDS:
            text = f"{text}\n{line}"
            continue
        if first:
            yield first, text
        first, text = number, line
    if first:
        yield first, text


def _earlier_form(lines: Iterable[tuple[int, str]]) -> str:
    """The sentence about a log of LoadGen before 1.0: its version and its first error."""
    version = error = ""
    for number, text in lines:
        message = _EARLIER.sub("", text, count=1)
        if message.startswith(_VERSION):
            version = f" {message.removeprefix(_VERSION)[:40]}"
        if message.startswith(_ERROR) and not error:
            error = f"; line {number} reports an error: {message.removeprefix(_ERROR)[:400]!r}"
    return f"LoadGen{version} wrote it in the form before 1.0, which is not judged{error}"


def _oddity(entry: dict[str, Any]) -> str:
    """One sentence about a part of an entry that LoadGen would not have written
    (loadgen/logging.cc, AsyncLog); empty if there is none.
    """
    metadata = entry["metadata"]
    if entry.get("namespace") != "mlperf::logging" or entry.get("event_type") not in _EVENTS:
        return "the entry has another namespace or event_type than LoadGen's"
    for key in ("is_error", "is_warning"):
        if type(metadata.get(key)) is not bool:
            return f"{key} is true or false in each of LoadGen's entries"
    for word in ("error", "warning"):
        if entry["key"].startswith(word) and not metadata[f"is_{word}"]:
            return f"is_{word} is false, and LoadGen logs such a key with true"
    for key in ("pid", "tid", "line_no"):
        if type(metadata.get(key)) is not int:
            return f"{key} is not a number"
    file = str(metadata.get("file"))
    if not file.endswith((".cc", ".h")):
        return f"it was logged by {file[:40]}, which is not a source file of LoadGen"
    return ""


def _time_ms(value: Any) -> float:
    if type(value) not in (int, float) or abs(value) >= 1e20:
        return math.nan
    return float(value - _WRAPPED_MS if value > _WRAPPED_MS / 2 else value)


class _Entry(NamedTuple):
    """The parts of an entry. `odd`: see `_oddity`."""

    key: str
    value: Any
    time_ms: Any
    is_error: Any
    is_warning: Any
    pid: Any
    odd: str = ""


def _entry(text: str) -> _Entry | str:
    """The entry, or the reason in brackets why the text is none."""
    if not text.startswith(_MARK):
        return ""
    if match := _PLAIN.fullmatch(text, len(_MARK)):
        key, value, whole, real, flag, time_ms, is_error, is_warning, pid = match.groups()
        if value is None:
            value = int(whole) if whole else float(real) if real else flag == "true"
        return _Entry(
            key, value, float(time_ms), is_error == "true", is_warning == "true", int(pid)
        )
    content = text[len(_MARK) :]
    match = _SET.fullmatch(content)
    indices = _indices(match[2]) if match else None
    if match and indices:
        content = f"{match[1]}null{match[3]}"
    try:
        entry = strict_json.parse(content)
    except ValueError as e:
        no_json = isinstance(e, json.JSONDecodeError)
        entry = _raw_entry(content, no_json)
        if entry is None:
            return "" if no_json else f" ({e})"
    if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
        return ""
    value, metadata = entry.get("value"), entry.get("metadata")
    if indices:
        value = indices
    if not isinstance(metadata, dict):
        return ""
    flags = (metadata.get(name) for name in ("is_error", "is_warning", "pid"))
    return _Entry(entry["key"], value, entry.get("time_ms"), *flags, _oddity(entry))


def _indices(text: str) -> Indices | None:
    """The numbers of a list whose items are separated by commas, each with a space after it or not.
    None: it has another form.
    """
    commas, spaces = text.count(","), text.count(" ")
    if spaces != text.count(", ") or ",," in text or ", ," in text:
        return None
    values = np.fromstring(text, np.int64, sep=",")
    most = len(str(values.max()))
    digits = len(values) + sum(np.count_nonzero(values >= 10**n) for n in range(1, most))
    # More digits than the values need are leading zeros, or do not fit.
    if digits + commas + spaces != len(text) or most > _MOST_DIGITS:
        return None
    return Indices("q", values.tobytes())


def _raw_entry(content: str, no_json: bool) -> Any:
    """An entry whose value is no JSON because LoadGen escapes nothing; None if something else is
    wrong with it. `no_json`: no reader of JSON would read it.
    """
    match = _RAW.fullmatch(content)
    if match is None or not (no_json or match[3]):
        return None
    try:
        entry = strict_json.parse(f"{match[1]}null{match[4]}")
    except ValueError:
        return None
    return entry | {"value": float(match[3]) if match[3] else match[2]}
