"""The check of a compliance test's verify_*.txt. They must agree with the logs and are never
trusted.
"""

from __future__ import annotations

from compliance.audit_tests import verification
from compliance.logs import files
from compliance.subject import LoadGenRun, Subject


def contradictions(test: LoadGenRun, name: str, expected: str, subject: Subject) -> list[str]:
    """List the faults of a verify_*.txt: it is missing, or has another verdict than `expected`.
    Empty if there is none.

    Args:
        expected: the verdict that the logs show.
    """
    text, fault = files.attempt(files.text, subject.place.compliance / test.name / name)
    if text is None:
        return [fault]
    lines = [line.strip() for line in text.splitlines()]
    agrees = (
        any(line.startswith(expected) for line in lines)
        if expected == verification.FAIL
        else expected in lines
    )
    contradicts = expected == verification.PASS and any(
        line.startswith(verification.FAIL) for line in lines
    )
    return (
        []
        if agrees and not contradicts
        else [f"{name} does not say {expected!r} alone, which is what the logs show"]
    )
