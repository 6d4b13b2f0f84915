"""Faults of the detail log: the value of one of its entries, and its line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from compliance.findings.check import mismatch, quoted
from compliance.logs import Detail
from formats.checks import Fault, Faults


def entry_fault(detail: Detail, key: str, expected: Any, who: str) -> Fault:
    """A fault for an entry whose value differs from the one that `who` (for example, the settings)
    gives it. The fault has the sentence, both values and the line.
    """
    return mismatch(key, detail.get(key), expected, who, line=detail.line(key))


def not_a_number(detail: Detail, key: str) -> Fault:
    """A fault for an entry that is no number or is missing."""
    return mismatch(key, quoted(detail.get(key)), "a number", "it must be", line=detail.line(key))


def of_the_log(faults: Iterable[Fault | str], log: str) -> Faults:
    """The faults of a check on the trace. A fault with a line is moved to the detail log `log`,
    because the line is one of that log.
    """
    for fault in faults:
        if isinstance(fault, Fault) and fault.line:
            yield replace(fault, file=log)
        else:
            yield fault
