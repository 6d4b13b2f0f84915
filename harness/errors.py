"""Errors that end a command early, with one clear sentence and an exit code (2 usage, 3
environment).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager


class HarnessError(Exception):
    """A fault that the user must fix before anything can be measured. Only its text is shown, one
    sentence.
    """

    exit_code = os.EX_SOFTWARE


class UsageError(HarnessError):
    """The command line requests something impossible (exit code 2)."""

    exit_code = 2


class EnvironmentFailure(HarnessError):
    """The machine or an environment lacks something that is needed (exit code 3)."""

    exit_code = 3


class Refused(UsageError):
    """Its sentence lacks the flag and its value, which `about` adds."""


@contextmanager
def about(subject: str) -> Iterator[None]:
    """A context in which each Refused becomes a UsageError about a flag and its value."""
    try:
        yield
    except Refused as e:
        raise UsageError(f"{subject}: {e}") from None
