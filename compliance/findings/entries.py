"""Faults of the detail log: what stands in one of its entries, and in which line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from compliance.findings.check import Fault, mismatch, shorten


class Entries(Protocol):
    """The part of a detail log that a fault needs: the value of a key and the number of its
    line.
    """

    def get(self, key: str) -> Any:
        """The value of a key; None where the log has none."""

    def line(self, key: str) -> int | None:
        """The line of a key in the log; None where the log has none."""


def entry_fault(detail: Entries, key: str, expected: Any, who: str) -> Fault:
    """An entry has another value than `who` (the settings, say) makes it: the sentence, both values
    and the line.
    """
    return mismatch(key, detail.get(key), expected, who, line=detail.line(key))


def not_a_number(detail: Entries, key: str) -> Fault:
    """An entry holds no number, or is missing."""
    value = shorten(repr(detail.get(key)))
    return Fault(
        f"{key} is {value}; a number belongs there", "a number", value, line=detail.line(key)
    )


def of_the_log(faults: Iterable[Fault | str], log: str) -> Iterator[Fault | str]:
    """The faults of a check on the trace, those with a line moved to the detail log `log`: a trace
    has no lines to tell.
    """
    return (
        replace(fault, file=log) if isinstance(fault, Fault) and fault.line else fault
        for fault in faults
    )
