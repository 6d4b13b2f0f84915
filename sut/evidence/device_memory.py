"""Determines the most memory that a model has used on an accelerator, without the memory of the
speed probe. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_peaks: list[int] = []  # before and after the probe, once it has run


@contextmanager
def probing(read: Callable[[], int | None]) -> Iterator[None]:
    """A context for the probe, whose matrices (up to 3 GB) are not the model's memory. Frameworks
    report the peak since their start, which includes the probe.

    Args:
        read: returns the peak in bytes; None on a CPU.
    """
    before = read()
    yield
    if not _peaks and before is not None:
        _peaks.extend((before, read() or before))


def peak(bytes_held: int | None) -> int | None:
    """Return the framework's peak. If nothing has exceeded the probe's peak since, return the peak
    before the probe.
    """
    if bytes_held is None or not _peaks or bytes_held > _peaks[1]:
        return bytes_held
    return _peaks[0]
