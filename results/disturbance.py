"""Disturbances while a cell was measured, in sentences."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from formats.cell import Cell
from formats.frameworks import ENGINE
from formats.outcome import Disturbance
from scenarios.worker.system import disturbance as worker

BY_CLOCK = ("kept answers", "speed", "loadgen", "clock")
"""Causes of an invalid run that a disturbed machine may explain."""


@dataclass(frozen=True, kw_only=True)
class _Limits:
    """The shares of the test, or numbers of processors, from which a disturbance is reported.

    Attributes:
        note: a reader gets a note.
        serious: the figure is not ranked.
    """

    note: float
    serious: float

    def of_many(self, processors: int) -> _Limits:
        """The limits for a machine with many processors: at least 1/50 and 1/10 of them."""
        note = max(self.note, processors / 50)
        return _Limits(note=note, serious=max(self.serious, processors / 10))


_Share = tuple[str, float | None, _Limits]
"""A text, its share of the test or number of processors (None: not known), and the limits."""

_STALLED = _Limits(note=0.02, serious=0.05)
_OTHERS = _Limits(note=0.1, serious=0.5)
_STOLEN = _Limits(note=0.02, serious=0.1)
_CLOCK = _Limits(note=1.0, serious=1.0)
_STEP_S = 1e-3
_STEP_SHARE = 1e-3
"""The most that the calendar clock may be set during a test: seconds, and a share of the test. NTP
slews it by at most 0.0005 (adjtimex(8)), and the monotonic clock with it.
"""


def now(seconds: float) -> float:
    """The processors that other programs and the hypervisor take now, if they are so many that a
    run would not be ranked. Otherwise, and if this system does not report it, 0.

    `seconds`: how long to look.
    """
    before = worker.read()
    time.sleep(seconds)
    used = worker.taken(before, worker.read()) or 0.0
    processors = len(os.sched_getaffinity(0))
    return used if used >= _OTHERS.of_many(processors).serious else 0.0


def of_others(noise: Disturbance | None, cell: Cell, execution: str) -> Disturbance | None:
    """The disturbances without what processes of the cell itself may have used."""
    if noise is None:
        return None
    if cell.replicas or cell.shard_count > 1:
        # A replica or a shard may be a process with a part of the processors.
        noise = replace(noise, threads=None)
    if cell.device_count > 1 or cell.cluster:
        noise = replace(noise, children=0)
    if cell.cluster or execution == ENGINE:
        # Replicas and engines may be on this machine, and are no processes of the worker.
        noise = replace(noise, other_processors=None)
    return noise


def sentences(noise: Disturbance | None, processors: int) -> tuple[list[str], list[str]]:
    """Return (reasons why the figure may not be ranked, notes for a reader).

    Args:
        noise: as `of_others` returns it; None: nothing is known.
        processors: the number that the worker may use. If it is large, the same load of other
            programs weighs less.
    """
    serious: list[str] = []
    notes: list[str] = []
    if noise is None:
        return serious, notes
    for text, share, limits in _shares(noise, processors):
        if share is not None and share >= limits.serious:
            serious.append(text)
        elif share is not None and share >= limits.note:
            notes.append(text)
    notes += _notes(noise, processors)
    if noise.fresh_slower is not None:
        serious.append(
            f"new inputs took {noise.fresh_slower:.3g} times as long as the inputs of the test."
            " Either the SUT keeps parts of its answers, or the machine was disturbed: measure"
            " again"
        )
    return serious, notes


def _shares(noise: Disturbance, processors: int) -> Iterator[_Share]:
    """Yield each way in which a machine disturbs a measurement."""
    stalled = noise.stalled_seconds
    seconds = noise.seconds
    stood_still = (
        f"nothing was completed for {stalled:.2g} of its {seconds:.3g} s (longest"
        f" {noise.longest_stall_seconds:.2g} s): the worker stood still, or one batch took far"
        " longer than is usual"
    )
    yield stood_still, stalled / seconds, _STALLED
    used = noise.other_processors
    text = f"other programs used {used or 0:.0%} of a processor while it was measured"
    yield text, used, _OTHERS.of_many(processors)
    stolen = noise.stolen_processors
    text = (
        f"the hypervisor kept {stolen or 0:.0%} of a processor from this machine while it was"
        " measured"
    )
    yield text, stolen, _STOLEN.of_many(processors)
    step_s = noise.clock_step_seconds
    share = abs(step_s) / (_STEP_S + _STEP_SHARE * seconds)
    yield (
        (
            f"the calendar clock, by which LoadGen measures, was set by {step_s:+.3g} s while it"
            " was measured: measure again"
        ),
        share,
        _CLOCK,
    )


def _notes(noise: Disturbance, processors: int) -> Iterator[str]:
    children = noise.children
    threads = noise.threads
    if children:
        processes = f"{children} more process{'es' if children > 1 else ''}"
        yield (
            f"the SUT ran in {processes}, which used {noise.children_processors:.0%} of a"
            " processor; their memory is not counted"
        )
    if threads is not None and threads != processors:
        counted = f"{threads} thread{'s' if threads > 1 else ''}"
        yield f"the framework ran with {counted}, and the worker may use {processors} processors"
