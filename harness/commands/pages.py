"""Functions that write the pages that a command's flags name."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

from harness.errors import EnvironmentFailure, UsageError


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
    try:
        path.write_bytes(content.encode(errors="backslashreplace"))
    except OSError as e:
        raise UsageError(
            f"{flag} {path}: cannot be written ({e.strerror}); give a file in a folder that exists"
        ) from None


def drawing(flag: str) -> ModuleType:
    """Import `harness.report.page`. It needs matplotlib, which is slow to import and not part of a
    bundle made with --core.

    Raises EnvironmentFailure if matplotlib is not installed.
    """
    try:
        return importlib.import_module("harness.report.page")
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] != "matplotlib":
            raise
        raise EnvironmentFailure(
            f"{flag}: needs matplotlib, which a bundle made with --core does not have: copy the"
            " runs to another machine, and call the command there"
        ) from None
