"""Constraints of a field that a type cannot express: its choices, its least value, the pattern of a
text.

The JSON Schemas (`formats.schemas`) and the table of a cell's fields (`formats.cell`) are built
from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NONE: Mapping[str, Any] = {}
"""No constraint."""


def choices(values: Sequence[Any]) -> Mapping[str, Any]:
    """One of these values."""
    return {"enum": list(values)}


def least(value: float) -> Mapping[str, Any]:
    """This number or a larger one."""
    return {"minimum": value}


def matching(pattern: str) -> Mapping[str, Any]:
    """A text in which this regular expression is found."""
    return {"pattern": pattern}
