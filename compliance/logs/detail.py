"""LoadGen's detail log, mlperf_log_detail.txt: every entry with its key, value, line and time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from compliance.logs.entry import LOADED_SET, MARK, entry_of
from compliance.logs.lines import Problems, read_lines
from formats import bounds

_END = "}}"  # LoadGen ends each entry so
_MOST_LINE_ENDS = 8
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
_LARGEST = 256 << 20


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

    def count(self, key: str, at_most: int = 1 << 32) -> int | None:
        """The count under `key`; None if it is no integer from 1 to `at_most`."""
        value = self.get(key)
        return value if type(value) is int and 0 < value <= at_most else None

    def seed(self, name: str) -> int | None:
        """The effective seed, for example `qsl_rng_seed`; None if it is no integer from 0 on."""
        value = self.get(f"effective_{name}")
        return value if type(value) is int and value >= 0 else None

    def loaded_samples(self, test: str = "performance") -> float | None:
        """The number of samples that a test loads: performance_sample_count or
        accuracy_sample_count, but no more than the library has. None if the log does not have both.
        """
        count = self.number(f"effective_{test}_sample_count")
        total = self.number("qsl_reported_total_count")
        return None if count is None or total is None else min(count, total)

    @property
    def has_tokens(self) -> bool:
        """Whether LoadGen was set to measure the latency of the first token and of each later
        one.
        """
        return self.get("requested_use_token_latencies") is True


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
        entry = entry_of(text)
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
        is_open = text.startswith(MARK) and not text.endswith(_END)
        if is_open and not line.startswith(MARK) and text.count("\n") < _MOST_LINE_ENDS:
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


def _time_ms(value: Any) -> float:
    if type(value) not in (int, float) or abs(value) >= 1e20:
        return math.nan
    return float(value - _WRAPPED_MS if value > _WRAPPED_MS / 2 else value)
