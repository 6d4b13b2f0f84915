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
            f"{flag} {path}: cannot be written ({e.strerror}); give a file in a folder that exists"
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
            f"{flag} {path}: the file exists and cannot be read ({e.strerror}); choose another name"
        ) from None
    if lost:
        raise UsageError(
            f"{flag} {path}: the file exists and is not a page of {what}, so it is not overwritten;"
            " choose another name, or delete it"
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
            f"{flag}: needs matplotlib, which a bundle made with --core does not have: copy the"
            " runs to another machine, and call the command there"
        ) from None
