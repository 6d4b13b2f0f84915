"""Faults of one entry of a detail log, with its line."""

from __future__ import annotations

from typing import Any

from compliance.findings.check import Fault, differs, shown
from compliance.logs import Detail


def of_entry(d: Detail, key: str, want: Any, who: str) -> Fault:
    """Of one entry of the detail log."""
    return differs(key, d.get(key), want, who, line=d.line(key))


def no_number(d: Detail, key: str) -> Fault:
    value = shown(repr(d.get(key)))
    return Fault(f"{key} is {value}; a number belongs there", "a number", value, line=d.line(key))
