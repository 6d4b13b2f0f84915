"""A folder of run directories."""

from __future__ import annotations

from pathlib import Path

from harness import terminal
from harness.comparison import tables
from harness.comparison.runs import find
from harness.errors import UsageError


def groups_below(directory: Path) -> list[tables.Group]:
    """The cells below a folder. Files that cannot be read are named on standard error. Raises
    UsageError if there is no cell.
    """
    if not directory.is_dir():
        fault = "is a file" if directory.exists() else "there is no such directory"
        raise UsageError(f"{directory}: {fault}; give a folder of run directories")
    results, faults = find(directory)
    for path, why in faults.items():
        terminal.error(f"left out: {path}: {why}")
    groups = tables.grouped(results)
    if not groups:
        raise UsageError(
            f"{directory}: has no finished run below it; ./run.sh writes runs below --out"
            " (default: runs/)"
        )
    return groups
