"""The precision of LoadGen's logged numbers."""

from __future__ import annotations

import math

DIGITS = 1.1e-5
"""The relative error of a logged float, which has six significant digits."""


def close(a: float, b: float, relative: float) -> bool:
    """Return whether two finite numbers differ by at most `relative` times the larger absolute
    value.
    """
    return abs(a - b) <= relative * max(abs(a), abs(b)) < math.inf


def signed(number: float) -> float:
    """An unsigned integer of 64 bits as LoadGen reads it if it is stored as a signed one. Durations
    and Server's limit of the latency are.
    """
    return number if number < 1 << 63 else number - (1 << 64)
