"""The verify_*.txt of a compliance test: their verdicts, and the faults of one that contradicts the
logs. They are never trusted.

run_verification.py of mlcommons/inference writes these files. This project writes the lines that
the submission checker looks for.
"""

from __future__ import annotations

from compliance.logs import files
from compliance.subject import LoadGenRun, Subject

PASS, FAIL = "TEST PASS", "TEST FAIL"


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
    fails = any(line.startswith(FAIL) for line in lines)
    agrees = fails if expected == FAIL else expected in lines
    contradicts = expected == PASS and fails
    if agrees and not contradicts:
        return []
    return [f"{name} has another verdict than the logs, which show {expected!r}"]
