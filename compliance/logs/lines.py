"""Reads a log line by line and notes its problems. Bad content is noted and never raises an
error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from formats import bounds

# LoadGen's lines are far shorter. The longest are the loaded set of a full data set (detail) and an
# image's bytes (accuracy).
_LONGEST_LINE = 64 << 20
MOST_PROBLEMS = 20
# A file with more problems is not read further, because each problem takes time and these are
# enough.
_MOST_COUNTED = 10_000
# The first bytes of a file that is no text in UTF-8 → a sentence.
_OTHER_FORMS = {
    b"\x1f\x8b": "the file is compressed by gzip: unpack it",
    b"BZh": "the file is compressed by bzip2: unpack it",
    b"\xfd7zXZ\0": "the file is compressed by xz: unpack it",
    b"\x28\xb5\x2f\xfd": "the file is compressed by zstd: unpack it",
    b"PK\x03\x04": "the file is a zip archive: unpack it",
    b"\xff\xfe": "the file is text in UTF-16, and LoadGen writes UTF-8: convert it",
    b"version https://git-lfs": "the file is a pointer of Git LFS: fetch its content",
}


class Problems(list[str]):
    """The first twenty problems of a file, one sentence each.

    Attributes:
        total: the number of all problems.
        cut: the number of the last line, if the file does not end with a line end.
        last: the number of the last line that was read.
    """

    total = 0
    cut: int | None = None
    last = 0

    def note(self, problem: str) -> None:
        """Counts a problem, and keeps it if it is one of the first twenty."""
        self.total += 1
        if len(self) < MOST_PROBLEMS:
            self.append(problem)


def read_lines(
    path: Path, problems: Problems, most: int, multiple: int
) -> Iterator[tuple[int, str]]:
    """(number, text without the line end) of each line that is UTF-8. Reads at most `most` bytes
    and notes it as a problem if there are more. Raises TooLarge (formats/bounds.py).

    Args:
        multiple: the bytes of memory that a byte of the log may need.
    """
    bounds.check(path.name, min(path.stat().st_size, most), multiple)
    with path.open("rb") as f:
        if form := _other_form(f.peek()):
            problems.note(form)
            return
        number = size = 0
        while raw := f.readline(_LONGEST_LINE):
            number += 1
            problems.last = number
            size += len(raw)
            if problems.total > _MOST_COUNTED:
                return
            if size > most:
                problems.note(
                    f"only the first {most >> 20} MiB are read, before line {number}: LoadGen's"
                    " logs are smaller"
                )
                return
            if not raw.endswith(b"\n"):
                if len(raw) == _LONGEST_LINE:
                    problems.note(
                        f"line {number} is longer than {_LONGEST_LINE >> 20} MiB: the rest is not"
                        " read"
                    )
                    return
                problems.note(f"line {number} is cut: the file does not end with a line end")
                problems.cut = number
            if b"\0" in raw:
                problems.note(f"line {number} has a NUL byte: it is not text")
            try:
                yield number, raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as e:
                problems.note(f"line {number} is not UTF-8 (byte {e.start})")
        if not number:
            problems.note("the file is empty")


def _other_form(head: bytes) -> str:
    """The sentence about a file that begins with these bytes; empty if it may be text."""
    return next((text for start, text in _OTHER_FORMS.items() if head.startswith(start)), "")
