"""A folder of run directories, and a page that a command writes."""

from __future__ import annotations

from pathlib import Path

from harness import terminal
from harness.comparison import tables
from harness.comparison.runs import find
from harness.errors import UsageError


def groups_below(directory: Path) -> list[tables.Group]:
    """The cells below a folder; files that cannot be read are named on standard error. Raises UsageError where there is none."""
    if not directory.is_dir():
        what = "it is a file" if directory.exists() else "there is no such directory"
        raise UsageError(f"{directory}: {what}; give a folder of run directories")
    results, faults = find(directory)
    for path, why in faults.items():
        terminal.error(f"left out: {path}: {why}")
    groups = tables.grouped(results)
    if not groups:
        raise UsageError(f"{directory}: no finished run lies below it; ./run.sh writes them below --out (default: runs/)")
    return groups


def write(flag: str, path: Path, content: bytes) -> None:
    """Write a file that a flag names. Raises UsageError where it cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as e:
        raise UsageError(f"{flag} {path}: it cannot be written ({e.strerror}); name a file in a folder that is there") from None


def write_page(flag: str, path: Path, beginning: str, content: str) -> None:
    """Write an HTML page. Raises UsageError where another file would be lost."""
    if path.is_file() and not path.read_bytes().startswith(beginning.encode()):
        raise UsageError(f"{flag} {path}: it is there and no page of a report; name another file, or remove it")
    write(flag, path, content.encode(errors="backslashreplace"))
