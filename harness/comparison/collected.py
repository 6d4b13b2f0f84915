"""Values that come with keys → the values of each key."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def collected(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Each key → its values. Keys are in the order in which they come first."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
