"""This module measures the disturbances of a test while it runs.

It looks for four things: the work of other programs, processor time that the hypervisor kept, times
in which no answer came, and a calendar clock that was set. The first two are absent if /proc does
not report them, never guessed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from formats.outcome import Disturbance

_PROC = Path("/proc")
_STAT = _PROC / "stat"
# Columns of a cpu line in /proc/stat (proc(5)): user, nice, system, idle, iowait, irq, softirq,
# steal. Guests count as user.
_BUSY, _STEAL = (0, 1, 2, 5, 6), 7
_AT_WORK = 0.02
"""A process that the worker started counts if it uses at least this share of a processor. Compilers
keep idle processes.
"""
# A gap counts as a stall if it is longer than both.
_TIMES_SLOWEST = 3
_LEAST_NS = 20_000_000
_CLOCK_READINGS = 5


@dataclass(frozen=True)
class ProcessorTimes:
    """Seconds since the machine started.

    `busy`, `steal`: sums over the processors that this process may use. `own`: the time of this
    process and those that it started. `children`: process → seconds, for the started processes that
    still run.
    """

    at_ns: int
    busy: float
    steal: float
    own: float
    children: Mapping[int, float] = field(default_factory=dict)


def calendar_ahead_ns() -> int:
    """How far the calendar clock is ahead of `perf_counter_ns`, by the quickest of some readings:
    another program may run between two clocks.
    """
    readings = []
    for _ in range(_CLOCK_READINGS):
        start = time.perf_counter_ns()
        calendar = time.time_ns()
        end = time.perf_counter_ns()
        readings.append((end - start, calendar - start))
    return min(readings)[1]


def read() -> ProcessorTimes | None:
    """The processor times until now; None if this system does not report them."""
    try:
        lines = _STAT.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    usable = {f"cpu{n}" for n in os.sched_getaffinity(0)}
    columns = [
        list(map(int, line.split()[1:])) for line in lines if line.split(" ", 1)[0] in usable
    ]
    if not columns or any(len(each) <= _STEAL for each in columns):
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    own = os.times()
    children = {process: seconds / ticks for process, seconds in _descendants(os.getpid()).items()}
    return ProcessorTimes(
        time.perf_counter_ns(),
        sum(each[n] for each in columns for n in _BUSY) / ticks,
        sum(each[_STEAL] for each in columns) / ticks,
        own.user + own.system + own.children_user + own.children_system + sum(children.values()),
        children,
    )


def _descendants(process: int) -> dict[int, int]:
    """Process → ticks of a processor that it used (proc_pid_stat(5)), for all processes that this
    process and its children started.
    """
    children: list[int] = []
    for each in (_PROC / str(process) / "task").glob("*/children"):
        with suppress(OSError):
            children += map(int, each.read_text(encoding="ascii").split())
    found: dict[int, int] = {}
    for child in children:
        # A child or a thread that ends meanwhile must not hide the others.
        with suppress(OSError):
            stat = (_PROC / str(child) / "stat").read_text(encoding="utf-8", errors="replace")
            columns = stat.rpartition(")")[2].split()
            # User and system time, its own and that of its children that ended.
            found[child] = sum(map(int, columns[11:15]))
            found |= _descendants(child)
    return found


def between(
    before: ProcessorTimes | None,
    after: ProcessorTimes | None,
    seconds: float,
    gaps_ns: np.ndarray,
    slowest_ns: float,
    clock_step_ns: int = 0,
) -> Disturbance:
    """Compute the disturbances between two readings.

    Args:
        gaps_ns: the gaps between the answers of one batch and of the next, int64 [n]; for a
            training, the times of its steps.
        slowest_ns: the slowest batch of the calibration; for a training, the median step.
        clock_step_ns: how much further the calendar clock was ahead at the end than at the start.
    """
    others, stolen, working = _rates(before, after)
    stalls = gaps_ns[gaps_ns > max(_TIMES_SLOWEST * slowest_ns, _LEAST_NS)]
    stalled_ns = float(stalls.sum()) - len(stalls) * slowest_ns
    longest_ns = float(stalls.max(initial=0))
    return Disturbance(
        seconds=seconds,
        other_processors=others,
        stolen_processors=stolen,
        stalls=len(stalls),
        stalled_seconds=stalled_ns / 1e9,
        longest_stall_seconds=longest_ns / 1e9,
        children=len(working),
        children_processors=sum(working),
        clock_step_seconds=clock_step_ns / 1e9,
    )


def taken(before: ProcessorTimes | None, after: ProcessorTimes | None) -> float | None:
    """Processors, on average, that other programs and the hypervisor took between two readings.
    None if the system does not report it.
    """
    others, stolen, _ = _rates(before, after)
    return None if others is None or stolen is None else others + stolen


def _rates(
    before: ProcessorTimes | None, after: ProcessorTimes | None
) -> tuple[float | None, float | None, list[float]]:
    """(`other_processors`, `stolen_processors`) of a `Disturbance`, and the processors that each
    working process used, among those that the worker started.
    """
    if not before or not after or after.at_ns <= before.at_ns:
        return None, None, []
    span = (after.at_ns - before.at_ns) / 1e9
    others = max(0.0, (after.busy - before.busy) - (after.own - before.own)) / span
    stolen = (after.steal - before.steal) / span
    shares = [
        (seconds - before.children.get(process, 0.0)) / span
        for process, seconds in after.children.items()
    ]
    return others, stolen, [share for share in shares if share >= _AT_WORK]
