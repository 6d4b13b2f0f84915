"""The processors that SUTs may use, and how replicas share them. Standard library only."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, zip_longest
from pathlib import Path

from scenarios.worker.system import control_groups

_TOPOLOGY = Path("/sys/devices/system/cpu")


def available() -> tuple[int, ...]:
    """The logical processors that a SUT uses if nothing else is requested: those of the affinity
    mask, and at most the quota of the control groups, rounded up.
    """
    mask = os.sched_getaffinity(0)
    return first(mask, math.ceil(control_groups.processors() or len(mask)))


def first(processors: Iterable[int], count: int) -> tuple[int, ...]:
    """The first `count` of these logical processors, on different cores as far as possible."""
    of_each_core = zip_longest(*_cores(processors))
    ordered = [number for number in chain(*of_each_core) if number is not None]
    return tuple(sorted(ordered[:count]))


def count(processors: Iterable[int]) -> int:
    """The number of cores that have these logical processors."""
    return len(_cores(processors))


def usable() -> list[tuple[int, ...]]:
    """The available logical processors of each core."""
    return _cores(available())


def of_process(process: str = "self") -> set[int]:
    """The logical processors on which any thread of this process, or of a process that it started,
    may run. Empty: this system does not say.
    """
    found = set[int]()
    for thread in Path(f"/proc/{process}/task").glob("*"):
        with suppress(OSError):  # it has ended meanwhile
            found |= os.sched_getaffinity(int(thread.name))
            for child in (thread / "children").read_text(encoding="ascii").split():
                found |= of_process(child)
    return found


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
        siblings = control_groups.text(path) or str(number)
        cores.setdefault(siblings, []).append(number)
    return [tuple(each) for each in cores.values()]
