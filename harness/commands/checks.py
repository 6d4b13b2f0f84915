"""Checks as a command ends with them: shown, and turned into its exit code."""

from __future__ import annotations

from typing import Any

from compliance.findings import verdict
from harness import terminal


def show(results: list[Any], flags: Any) -> int:
    """Print the checks as the flags ask for. → 0 where all hold, else 1."""
    if flags.json:
        terminal.document({"checks": [c.as_json() for c in results]})
    else:
        terminal.checks(results, flags.quiet)
    return 0 if verdict.passes(results) else 1
