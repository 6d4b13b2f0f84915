"""Faults of a log that has lines: what stands in one of its entries, and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from compliance.findings.check import Fault, mismatch, shorten


class Entries(Protocol):
    """A detail log, as far as a fault needs it: the value of a key, and the number of its line."""

    def get(self, key: str) -> Any: ...

    def line(self, key: str) -> int | None: ...


def entry_fault(detail: Entries, key: str, want: Any, who: str) -> Fault:
    """Of one entry of the detail log."""
    return mismatch(key, detail.get(key), want, who, line=detail.line(key))


def not_a_number(detail: Entries, key: str) -> Fault:
    value = shorten(repr(detail.get(key)))
    return Fault(f"{key} is {value}; a number belongs there", "a number", value, line=detail.line(key))


def of_the_log(faults: Iterable[Fault | str], log: str) -> Iterator[Fault | str]:
    """The trace has no lines to tell: a fault with a line is of the detail log."""
    return (replace(fault, file=log) if isinstance(fault, Fault) and fault.line else fault for fault in faults)
