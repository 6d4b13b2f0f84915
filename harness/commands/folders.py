"""A folder of run directories."""

from __future__ import annotations

from pathlib import Path

from formats.result import Result
from harness import terminal
from harness.comparison import tables
from harness.comparison.runs import find
from harness.errors import UsageError


def found_below(directory: Path) -> tuple[list[Result], dict[Path, str]]:
    """The finished runs below a folder, and the files that cannot be read with their reasons, which
    are named on standard error. Raises UsageError if there is no run.
    """
    if not directory.is_dir():
        fault = "is a file" if directory.exists() else "there is no such directory"
        raise UsageError(f"{directory}: {fault}; give a folder of run directories")
    results, faults = find(directory)
    for path, why in faults.items():
        terminal.error(f"left out: {path}: {why}")
    if all(result.sweep and result.sweep.control for result in results):
        raise UsageError(
            f"{directory}: has no finished run below it; ./run.sh writes runs below --out"
            " (default: runs/)"
        )
    return results, faults


def groups_below(directory: Path) -> list[tables.Group]:
    """The cells below a folder. Raises as `found_below`."""
    return tables.grouped(found_below(directory)[0])
