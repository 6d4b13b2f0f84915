"""Counts the programs that a framework has compiled, without its profiler, and those that it found
in its cache on disk.

A GPU profiler may slow down everything that runs after it. JAX's profiler reaches the GPU, so JAX's
programs are counted here until a test is over.
"""

from __future__ import annotations

from collections.abc import Callable

_counters: list[Callable[[], int]] = []
_hits: list[Callable[[], int]] = []
_misses: list[Callable[[], int]] = []


def count_by(counter: Callable[[], int]) -> None:
    """From now on, let `counter` count the programs that were compiled in this process."""
    _counters[:] = [counter]


def count() -> int | None:
    """Return the number of programs compiled so far. None: only the framework's profiler counts
    them.
    """
    return _counters[0]() if _counters else None


def count_cached_by(hits: Callable[[], int], misses: Callable[[], int]) -> None:
    """From now on, let `hits` count the programs that were found in a cache on disk, and `misses`
    those that were looked for there and compiled.
    """
    _hits[:] = [hits]
    _misses[:] = [misses]


def hits() -> int:
    """Return the number of programs that were found in a cache on disk so far. 0 if the framework
    has no such cache.
    """
    return _hits[0]() if _hits else 0


def misses() -> int:
    """Return the number of programs that were not found in a cache on disk so far. 0 if the
    framework has no such cache.
    """
    return _misses[0]() if _misses else 0
