"""This module tells the most memory that this process held, without what the harness itself takes to watch a call.

PyTorch's profiler takes 5 kB for each operator: of a model that runs operator by operator that may be more than the model itself.
"""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_STATUS, _CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc_pid_clear_refs(5): reset the peak resident set size to the current one


class _Peak:
    """Of this process. `before`: bytes, until the last call that was watched. `spoilt`: the system's own figure holds a watched call."""

    before = 0
    spoilt = False


def peak_bytes() -> int:
    """The most resident memory in bytes, outside of every `watching`.

    Where the system cannot begin anew after a watched call, it is the most until the first one.
    """
    return _Peak.before if _Peak.spoilt else max(_Peak.before, _high_water())


@contextmanager
def watching() -> Iterator[None]:
    """A context whose memory does not count. What it took goes back to the system at its end."""
    _Peak.before = peak_bytes()
    try:
        yield
    finally:
        with suppress(AttributeError):  # glibc alone has it
            ctypes.CDLL(None).malloc_trim(0)
        _Peak.spoilt = not _reset()


def _high_water() -> int:
    """By the kernel's high-water mark on Linux, since ru_maxrss remembers the parent too."""
    with suppress(OSError):
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _reset() -> bool:
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True
