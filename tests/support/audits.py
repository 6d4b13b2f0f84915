"""What an audit says of a directory, as tests read it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compliance import audit
from formats.checks import Check, Verdict


def checks(directory: Path, level: str = "submission", **options: Any) -> dict[str, Check]:
    """Key → check of an audit. `options`: of `audit.audit`."""
    found = audit.audit(directory, **options).checks_for(level)
    return {check.key: check for check in whole(found)}


def failed(directory: Path, level: str = "submission", **options: Any) -> dict[str, Check]:
    """Those that fail."""
    found = checks(directory, level, **options)
    return {key: check for key, check in found.items() if check.verdict is Verdict.FAIL}


def whole(found: Sequence[Check]) -> Sequence[Check]:
    """No part of the audit broke off over what it read: such a part is a failed check, which must
    not count as having seen the damage.
    """
    assert not [check.line() for check in found if check.id == "audit"]
    return found
