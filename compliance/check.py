"""One finding of the audit. Nothing passes by absence: what cannot be told is N/A or MANUAL, with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    MANUAL = "MANUAL"
    """A person has to judge; never fails a level."""
    NA = "N/A"
    """Does not apply to this directory; the detail says why."""


@dataclass(frozen=True)
class Check:
    """One rule applied to one directory.

    Attributes:
        name: what was looked at, in a few words.
        detail: what was found, and for a failure what the rule wants; one sentence.
        level: the lowest level this must hold for, `quick`, `valid` or `submission`.
        source: where the rule stands (MLPERF's id of the check, or LoadGen's file).
        file: the file concerned, relative to the audited directory.
        fix: what to do about it.
    """

    name: str
    outcome: Outcome
    detail: str
    level: str = "quick"
    source: str = ""
    file: str = ""
    fix: str = ""

    def line(self) -> str:
        return f"[{self.outcome}] {self.name}: {self.detail}"

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "outcome": str(self.outcome)}


def judge(name: str, faults: Iterable[str], good: str, **where: str) -> Check:
    """FAIL with every fault (the first five of many), or PASS with what was seen."""
    found = list(faults)
    if not found:
        return Check(name, Outcome.PASS, good, **where)
    more = f" (and {len(found) - 5} more)" if len(found) > 5 else ""
    return Check(name, Outcome.FAIL, "; ".join(found[:5]) + more, **where)


def not_applicable(name: str, why: str, **where: str) -> Check:
    return Check(name, Outcome.NA, why, **where)


def manual(name: str, why: str, **where: str) -> Check:
    return Check(name, Outcome.MANUAL, why, **where)


def prefixed(checks: Iterable[Check], prefix: str) -> list[Check]:
    """Names begin with the path of the scenario, where a tree holds several."""
    return [replace(c, name=f"{prefix}: {c.name}") for c in checks]
