"""LoadGen's summary, mlperf_log_summary.txt: the text after each label."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from compliance.logs.lines import Problems, read_lines
from formats import bounds

_LARGEST = 16 << 20


@dataclass(frozen=True)
class Summary:
    """The content of mlperf_log_summary.txt.

    Attributes:
        values: label → the text after it.
        text: every line that is UTF-8.
        problems: the problems of the file, one sentence each, at most twenty.
        lines: label → the number of its line.
    """

    values: dict[str, str]
    text: str
    problems: tuple[str, ...]
    lines: dict[str, int] = field(default_factory=dict)


def read_summary(path: Path) -> Summary:
    """Reads the lines `label : value`. Raises OSError if the file cannot be read.

    A sentence with a colon is read as such a line too. That does no harm, because no table has its
    label.
    """
    problems = Problems()
    texts: list[str] = []
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, text in read_lines(path, problems, _LARGEST, bounds.JSON):
        texts.append(text)
        label, colon, value = text.partition(":")
        if not colon:
            continue
        label = label.strip()
        value = value.strip()
        if label.startswith("* "):  # early stopping's sentence about each latency
            continue
        earlier = values.get(label, value)
        if earlier != value:
            problems.note(f"{label[:60]!r} occurs twice: {earlier[:60]} and {value[:60]}")
        values[label] = value
        lines[label] = number
    return Summary(values, "\n".join(texts), tuple(problems), lines)
