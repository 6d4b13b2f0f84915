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
_SPENT_S = 0.1


_known: list[float] = []


def know(rate: float | None) -> None:
    """From now on, let `measure` return this rate. None: it measures."""
    _known[:] = [] if rate is None else [rate]


def measure(product: Callable[[int], Callable[[], object]]) -> float:
    """Return the floating-point operations a second of the largest of a few products, or the rate
    that is known.

    Args:
        product: see `largest`.
    """
    if _known:
        return _known[0]
    side, seconds = largest(product)
    return 2.0 * side**3 / seconds


def largest(product: Callable[[int], Callable[[], object]]) -> tuple[int, float]:
    """Return the first product that takes long enough to be timed, or the largest that fits into
    memory: the side of its matrices, and the seconds of its fastest run. The framework's own error
    is raised if not even the smallest fits.

    Args:
        product: side n → a function that multiplies two n × n matrices in the measured precision,
            and waits for the result. Their values are random: a GPU multiplies matrices of equal
            values with less power, and faster.
    """
    side = _SMALLEST_SIDE
    found = None
    while True:
        try:
            multiply = product(side)
            multiply()  # compiles, allocates, wakes threads
        # Each framework has its own error if memory is short. The model may leave little memory.
        except Exception:  # noqa: BLE001
            if found:
                return found
            raise
        # The seconds of the fastest of four runs. If all are long, more follow, because another
        # program may slow down several runs in a row.
        seconds = [_seconds(multiply) for _ in range(_TIMES)]
        while min(seconds) >= _LONG_ENOUGH_S and sum(seconds) < _SPENT_S:
            seconds.append(_seconds(multiply))
        found = side, min(seconds)
        if found[1] >= _LONG_ENOUGH_S or side == _LARGEST_SIDE:
            return found
        side *= 2


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)
