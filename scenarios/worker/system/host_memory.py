"""This module reports the most memory that this process used, without the memory that the harness
takes to watch a call. It also counts the processes that the kernel killed for want of memory.

PyTorch's profiler takes 5 kB for each operator. The matrices for measuring a framework's speed may
take gigabytes.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scenarios.worker.system import control_groups

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_VMSTAT = Path("/proc/vmstat")
_RESET_PEAK = "5"  # proc_pid_clear_refs(5): reset the peak resident set size to the current one


class _Peak:
    """The peak of this process. `before`: bytes until the last watched call. `spoilt`: whether the
    system's own figure includes a watched call. `inherited`: see `inherit`.
    """

    before = 0
    spoilt = False
    inherited = 0


def peak_bytes() -> int:
    """The most resident memory in bytes. Memory that was taken within `watching` does not count,
    except memory that an allocator kept.

    If the system cannot reset its figure after a watched call, the value is the peak before the
    first such call, or the memory in use now if that is more.
    """
    return _own_peak() + max(0, _Peak.inherited - file_bytes())


def inherit(of_files: int) -> None:
    """Let pages of files (libraries) count that the process which forked this one had read. The
    kernel gives a fork only those that it reads itself, so it would look smaller than a fresh one.
    """
    _Peak.inherited = of_files


def file_bytes() -> int:
    """The resident pages of files in bytes. 0 if the system does not report it."""
    return _status("RssFile")


def _own_peak() -> int:
    return max(_Peak.before, _status("VmRSS") if _Peak.spoilt else _high_water())


@contextmanager
def watching() -> Iterator[None]:
    """A context whose memory does not count. Contexts do not nest."""
    _Peak.before = _own_peak()
    try:
        yield
    finally:
        _Peak.spoilt = not _reset()


def _high_water() -> int:
    """The kernel's high-water mark, because ru_maxrss includes the parent. A sandbox may not report
    the mark.
    """
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status(name: str) -> int:
    """The value in bytes, from proc_pid_status(5). 0 if the system does not report it."""
    for line in control_groups.text(_STATUS).splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _reset() -> bool:
    """Reset the high-water mark. False if the system cannot."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return _status("VmHWM") > 0


def kernel_oom_kills() -> int:
    """Out-of-memory kills so far: the kernel's count for the machine plus that of this control
    group.
    """
    total = control_groups.oom_kills()
    for line in control_groups.text(_VMSTAT).splitlines():
        if line.startswith("oom_kill "):
            total += int(line.split()[1])
    return total
