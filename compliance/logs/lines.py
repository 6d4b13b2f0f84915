"""The lines of a log, streamed, and what is wrong with them: bad content is a problem, never an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

# No line LoadGen writes comes near: the longest are the loaded set of a full data set (detail) and an image's bytes (accuracy).
_LONGEST_LINE = 64 << 20
MOST_PROBLEMS = 20
# A file with so many is read no further: each takes time, and it says enough.
_MOST_SEEN = 10_000


class Problems(list[str]):
    """Keeps the first twenty. `seen`: how many there were."""

    seen = 0

    def note(self, problem: str) -> None:
        self.seen += 1
        if len(self) < MOST_PROBLEMS:
            self.append(problem)


def read_lines(path: Path, problems: Problems, most: int) -> Iterator[tuple[int, str]]:
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
