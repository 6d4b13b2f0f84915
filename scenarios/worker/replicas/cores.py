"""The cores of this machine, shared out among replicas. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TOPOLOGY = Path("/sys/devices/system/cpu")


def usable() -> list[tuple[int, ...]]:
    """The logical processors of each core that this process may use. Empty: this system does not
    pin a process to cores.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    return _cores(os.sched_getaffinity(0))


def parts(cores: list[tuple[int, ...]], count: int) -> list[tuple[int, ...]]:
    """The logical processors of each of `count` replicas, which get as many cores each. Cores that
    are left over stay free.
    """
    each = len(cores) // count
    shares = [cores[number * each : (number + 1) * each] for number in range(count)]
    return [tuple(sorted(sum(share, ()))) for share in shares]


def _cores(processors: Iterable[int]) -> list[tuple[int, ...]]:
    """The logical processors of each core, in the order of the cores."""
    cores: dict[str, list[int]] = {}
    for number in sorted(processors):
        path = _TOPOLOGY / f"cpu{number}/topology/thread_siblings_list"
        try:
            siblings = path.read_text(encoding="ascii").strip()
        except OSError:
            siblings = str(number)
        cores.setdefault(siblings, []).append(number)
    return [tuple(each) for each in cores.values()]
