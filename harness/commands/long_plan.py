"""Asks before a command that takes long."""

from __future__ import annotations

import argparse
import sys

from harness import terminal
from harness.errors import UsageError
from harness.messages import LongPlan

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
    question = LongPlan.QUESTION.format(duration=terminal.duration(seconds))
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        raise UsageError(LongPlan.REFUSED.format(duration=terminal.duration(seconds)))
    terminal.ask(question)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError(LongPlan.DECLINED)
