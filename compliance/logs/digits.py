"""How exactly a log gives a number."""

from __future__ import annotations

DIGITS = 1.1e-5
"""Relative: LoadGen logs floats with six significant digits."""


def close(a: float, b: float, relative: float) -> bool:
    return abs(a - b) <= relative * max(abs(a), abs(b))
