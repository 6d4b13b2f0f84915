"""How fast a framework multiplies large matrices on a device. Standard library only.

A model that consists of such products cannot be faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_SMALLEST_SIDE = 512
_LARGEST_SIDE = 16384
_LONG_ENOUGH_S = 0.01
_TIMES = 4


_known: list[float] = []


def know(rate: float | None) -> None:
    """From now on, let `measure` return this rate. None: it measures."""
    _known[:] = [] if rate is None else [rate]


def measure(product: Callable[[int], Callable[[], object]]) -> float:
    """Return the floating-point operations a second of the largest of a few products, best of four,
    or the rate that is known.

    Args:
        product: side n → a function that multiplies two n × n matrices in the measured precision,
            and waits for the result. Their values are random: a GPU multiplies matrices of equal
            values with less power, and faster.
    """
    if _known:
        return _known[0]
    side = _SMALLEST_SIDE
    rate = 0.0
    while True:
        try:
            multiply = product(side)
            multiply()  # compiles, allocates, wakes threads
        # Each framework has its own error if memory is short. The model may leave little memory.
        except Exception:  # noqa: BLE001
            if rate:
                return rate
            raise
        spent = min(_seconds(multiply) for _ in range(_TIMES))
        rate = 2.0 * side**3 / spent
        if spent >= _LONG_ENOUGH_S or side == _LARGEST_SIDE:
            return rate
        side *= 2


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)
