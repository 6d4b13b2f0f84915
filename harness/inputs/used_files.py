"""The user's files of a cell are read more than once: the plan reads them, a digest of them is
recorded, and workers load them. This module finds files that change meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.errors import UsageError

Stamp = tuple[int, ...]
"""What a write or a replacement of a file changes. Empty: there is no file."""
_READ = ("*", "*/config.json", "*/*.safetensors")
"""The files of a folder with weights that may be read."""


def stamps(paths: Iterable[Path | None]) -> dict[Path, Stamp]:
    """The stamp of each file, and of the files in each folder with weights."""
    files: list[Path] = []
    for path in filter(None, paths):
        if path.is_file():
            files.append(path)
        for pattern in _READ:
            files += path.glob(pattern)
    return {file: _stamp(file) for file in files if file.is_file()}


def _stamp(file: Path) -> Stamp:
    try:
        stat = file.stat()
    except OSError:
        return ()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def changed(before: Mapping[Path, Stamp]) -> str:
    """A sentence on the first file that has another stamp now. Empty: all have the same."""
    for file, stamp in before.items():
        if _stamp(file) != stamp:
            return (
                f"{file}: changed while it was used, so the figure would not be of the recorded"
                " file: measure again while nothing writes it"
            )
    return ""


def check(before: Mapping[Path, Stamp]) -> None:
    """Raise UsageError if a file has changed."""
    reason = changed(before)
    if reason:
        raise UsageError(reason)
