"""This module tells the most memory that this process held, without what the harness itself takes
to watch a call.

PyTorch's profiler takes 5 kB for each operator, and the matrices that a framework's speed is
measured with may take gigabytes.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_STATUS, _CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc_pid_clear_refs(5): reset the peak resident set size to the current one


class _Peak:
    """Of this process. `before`: bytes, until the last call that was watched. `spoilt`: the
    system's own figure holds a watched call.
    """

    before = 0
    spoilt = False


def peak_bytes() -> int:
    """The most resident memory in bytes. What `watching` took does not count, but what an allocator
    keeps of it does.

    Where the system cannot begin anew after a watched call, it is the most until the first one, or
    what is held now if that is more.
    """
    return max(_Peak.before, _now() if _Peak.spoilt else _high_water())


@contextmanager
def watching() -> Iterator[None]:
    """A context whose memory does not count. Contexts do not nest."""
    _Peak.before = peak_bytes()
    try:
        yield
    finally:
        _Peak.spoilt = not _reset()


def _high_water() -> int:
    """By the kernel's high-water mark on Linux, since ru_maxrss remembers the parent too."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1024 if sys.platform == "linux" else 1
    )


def _now() -> int:
    return _status("VmRSS")


def _status(name: str) -> int:
    """Bytes, by proc_pid_status(5). 0 where the system does not tell."""
    with suppress(OSError):
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0


def _reset() -> bool:
    """Begin anew. False where the system cannot."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return _status("VmHWM") > 0
