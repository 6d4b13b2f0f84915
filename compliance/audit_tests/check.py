"""What the checks of a compliance test have in common: the file they name, and the fix."""

from __future__ import annotations

from collections.abc import Iterable

from compliance.findings import check, fixes
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Fault


def folder(test: LoadGenRun, subject: Subject) -> str:
    """The folder of a compliance test, relative to the audited directory."""
    return subject.place.show(subject.place.compliance / test.name)


def judge(check_id: str, faults: Iterable[Fault | str], good: str, file: str) -> Check:
    """A check that fails if there is any fault. The fix is to run the compliance test again.

    Args:
        good: the detail if the check passes.
        file: the file it is about, relative to the audited directory.
    """
    return check.judge(check_id, faults, good, file=file, fix=fixes.COMPLY)
