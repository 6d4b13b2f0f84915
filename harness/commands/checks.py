"""The end of a command that returns checks: they are printed and give the exit code."""

from __future__ import annotations

from typing import Any

from compliance.findings import verdict
from harness import terminal


def show(results: list[Any], flags: Any) -> int:
    """Print the checks in the form of the flags. → 0 if all pass, else 1."""
    if flags.json:
        terminal.document({"checks": [c.as_json() for c in results]})
    else:
        terminal.checks(results, flags.quiet)
    return 0 if verdict.passes(results) else 1
