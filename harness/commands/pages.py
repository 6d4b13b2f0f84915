"""Functions that write the files and pages that a command's flags name."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from harness.errors import EnvironmentFailure, UsageError


def write(flag: str, path: Path, content: bytes) -> None:
    """Write a file that a flag names. Raises UsageError if it cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as e:
        raise UsageError(
            f"{flag} {path}: it cannot be written ({e.strerror}); name a file in a folder that is"
            " there"
        ) from None


def write_page(flag: str, path: Path, what: str, beginning: str, content: str) -> None:
    """Write an HTML page. Raises UsageError if another file would be overwritten, or if the file
    cannot be read or written.

    Args:
        what: the content of such a page, such as "a report".
        beginning: the first characters of each such page.
    """
    try:
        lost = path.is_file() and not path.read_bytes().startswith(beginning.encode())
    except OSError as e:
        raise UsageError(
            f"{flag} {path}: it is there and cannot be read ({e.strerror}); name another file"
        ) from None
    if lost:
        raise UsageError(
            f"{flag} {path}: it is there and no page of {what}; name another file, or remove it"
        )
    write(flag, path, content.encode(errors="backslashreplace"))


def drawing(flag: str, module: str) -> ModuleType:
    """Import `harness.report.page` or `.figures`. They need matplotlib, which is slow to import and
    not part of a bundle made with --core.

    Raises EnvironmentFailure if matplotlib is not installed.
    """
    try:
        return importlib.import_module(f"harness.report.{module}")
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] != "matplotlib":
            raise
        raise EnvironmentFailure(
            f"{flag}: it takes matplotlib, which a bundle made with --core leaves out: copy the"
            " runs to another machine, and draw there"
        ) from None
