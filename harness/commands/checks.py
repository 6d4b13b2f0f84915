"""The end of a command that returns checks: they are printed and give the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from compliance.findings import verdict
from formats.checks import Check, Checked
from harness import terminal


def show(results: Sequence[Check], flags: Any) -> int:
    """Print the checks in the form of the flags. → 0 if all pass, else 1."""
    if flags.json:
        terminal.document(asdict(Checked(checks=tuple(results))))
    else:
        terminal.checks(results, flags.quiet)
    return 0 if verdict.passes(results) else 1
