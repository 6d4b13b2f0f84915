"""The most memory held on an accelerator, less what the probe of its speed held. Standard library
only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_peaks: list[int] = []  # before and after the probe, once it has run


@contextmanager
def probing(read: Callable[[], int | None]) -> Iterator[None]:
    """Around the probe, whose matrices (up to 3 GB) are no memory of the model. Frameworks tell the
    peak since their start, with it.

    Args:
        read: → the peak in bytes; None on a CPU.
    """
    before = read()
    yield
    if not _peaks and before is not None:
        _peaks.extend((before, read() or before))


def peak(bytes_held: int | None) -> int | None:
    """The framework's peak; if nothing has passed that of the probe since, the one before the
    probe.
    """
    if bytes_held is None or not _peaks or bytes_held > _peaks[1]:
        return bytes_held
    return _peaks[0]
