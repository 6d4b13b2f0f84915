"""Asks before a command that takes long."""

from __future__ import annotations

import argparse
import sys

from harness import terminal
from harness.errors import UsageError

_LONG_S = 3600.0


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--yes`."""
    parser.add_argument(
        "--yes", action="store_true", help="do not ask, even if the plan takes more than an hour"
    )


def confirm(seconds: float, yes: bool) -> None:
    """Ask on a terminal whether a plan of more than an hour is wanted.

    Raises UsageError if it is not, and without a terminal if `--yes` is not given.
    """
    if yes or seconds <= _LONG_S:
        return
    question = f"this takes about {terminal.duration(seconds)}: go on? [y/N] "
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise UsageError(
            f"this takes about {terminal.duration(seconds)}: give --yes if you want that;"
            " --dry-run shows the plan, and fewer cells, a smaller --size or --duration, or"
            " --for TIME make it shorter"
        )
    terminal.ask(question)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was measured")
