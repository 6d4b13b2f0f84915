"""Constraints of a field that a type cannot express: its choices, its least value, the pattern of a
text. And how a worker, whose environment has no msgspec, converts JSON values to our types.

The JSON Schemas (`formats.schemas`) and the table of a cell's fields (`formats.cell`) are built
from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints


def choices(values: Sequence[Any]) -> Mapping[str, Any]:
    """One of these values."""
    return {"enum": list(values)}


def least(value: float) -> Mapping[str, Any]:
    """This number or a larger one."""
    return {"minimum": value}


def matching(pattern: str) -> Mapping[str, Any]:
    """A text in which this regular expression is found."""
    return {"pattern": pattern}


def typed(kind: Any, value: Any) -> Any:
    """Convert a JSON value to a dataclass, a tuple or a path, or to None if `kind` allows it. Other
    values stay as they are. Raises TypeError for a dataclass's value with other fields.
    """
    if value is None:
        return None
    if get_origin(kind) is UnionType:
        return typed(get_args(kind)[0], value)
    if get_origin(kind) is tuple:
        return tuple(typed(get_args(kind)[0], each) for each in value)
    if isinstance(kind, type) and is_dataclass(kind):
        kinds = get_type_hints(kind)
        return kind(**{name: typed(kinds.get(name), each) for name, each in dict(value).items()})
    return Path(value) if kind is Path else value
