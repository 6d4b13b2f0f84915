"""The verify_*.txt beside a compliance test: compared with what the logs show, never believed."""

from __future__ import annotations

from compliance.audit_tests import verification
from compliance.logs import files
from compliance.subject import LoadGenRun, Subject


def stated(test: LoadGenRun, name: str, want: str, subject: Subject) -> list[str]:
    """A fault where a verify_*.txt says other than what the logs show."""
    text, fault = files.attempt(files.text, subject.place.compliance / test.name / name)
    if text is None:
        return [fault]
    lines = [line.strip() for line in text.splitlines()]
    said = any(line.startswith(want) for line in lines) if want == verification.FAIL else want in lines
    denied = want == verification.PASS and any(line.startswith(verification.FAIL) for line in lines)
    return [] if said and not denied else [f"{name} does not say {want!r} alone, which is what the logs show"]
