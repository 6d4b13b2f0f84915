"""Counts what a framework has compiled, without its profiler.

A profiler of a GPU may slow down all that runs after it. JAX's reaches the GPU, so its programs are
counted here until a test is over.
"""

from __future__ import annotations

from collections.abc import Callable

_counters: list[Callable[[], int]] = []


def count_by(counter: Callable[[], int]) -> None:
    """Count the programs that the framework has compiled in this process by `counter` from here
    on.
    """
    _counters[:] = [counter]


def count() -> int | None:
    """The number of programs compiled so far. None: the framework counts them under its profiler
    only.
    """
    return _counters[0]() if _counters else None
