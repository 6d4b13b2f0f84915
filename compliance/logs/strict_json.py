"""Parses only JSON that means the same to every reader. Content that parsers read differently, or
fail on, is an error.
"""

from __future__ import annotations

import json
import math
from typing import Any

# No document of this project or of LoadGen comes near these.
_DEEPEST = 64
_MOST_DIGITS = 40


TWICE = "occurs twice in one object"
"""The words of the error for such a key."""

Document = dict[str, Any]
"""An object of a JSON file, or a mapping of a YAML file."""
_NO_JSON = "is not JSON"
_TOO_LARGE = "is too large for a number"
LENIENT = (TWICE, _NO_JSON, _TOO_LARGE)
"""The words of the errors for content that Python's own `json.load` accepts."""


def parse(text: str) -> Any:
    """The value of a JSON document.

    Raises ValueError, with the reason, for a key that occurs twice in an object, NaN or Infinity, a
    number beyond a double or 40 digits, more than 64 levels, and a byte order mark.
    """
    if text.startswith("\ufeff"):
        raise ValueError("it begins with a byte order mark")
    try:
        value = _STRICT.decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") > _DEEPEST:
        level = [value] if isinstance(value, dict | list) else []
        for _ in range(_DEEPEST + 1):
            inner: list[Any] = []
            for outer in level:
                inner += outer.values() if isinstance(outer, dict) else outer
            level = [each for each in inner if isinstance(each, dict | list)]
        if level:
            raise ValueError(_TOO_DEEP)
    return value


_TOO_DEEP = f"it is nested more than {_DEEPEST} levels deep"


def lookup(document: Any, path: str) -> Any:
    """The value at a path, whose dots lead one level down each; None if there is none."""
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"the key {key[:60]!r} {TWICE}")
        values[key] = value
    return values


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} {_TOO_LARGE}")
    return value


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"{digits[:20]}… has {len(digits)} digits; at most {_MOST_DIGITS} fit")
    return int(digits)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} {_NO_JSON}")


_STRICT = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_finite, parse_int=_whole, parse_constant=_no_constant
)
