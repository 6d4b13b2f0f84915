"""Counts the programs that a framework has compiled, without its profiler.

A GPU profiler may slow down everything that runs after it. JAX's profiler reaches the GPU, so JAX's
programs are counted here until a test is over.
"""

from __future__ import annotations

from collections.abc import Callable

_counters: list[Callable[[], int]] = []


def count_by(counter: Callable[[], int]) -> None:
    """From now on, let `counter` count the programs that were compiled in this process."""
    _counters[:] = [counter]


def count() -> int | None:
    """Return the number of programs compiled so far. None: only the framework's profiler counts
    them.
    """
    return _counters[0]() if _counters else None
