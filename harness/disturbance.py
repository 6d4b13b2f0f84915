"""What else went on while a cell was measured, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.messages import Note, Unranked

BY_CLOCK = ("kept answers", "speed", "loadgen")
"""Causes of an invalid run that a disturbed machine may be the reason of."""


@dataclass(frozen=True, kw_only=True)
class _Limits:
    """From which share of the test, or from how many processors, something is said.

    Attributes:
        note: a reader is told.
        serious: the figure is not ranked.
    """

    note: float
    serious: float

    def of_many(self, processors: int) -> _Limits:
        """At least a fiftieth and a tenth of a large machine."""
        note = max(self.note, processors / 50)
        return _Limits(note=note, serious=max(self.serious, processors / 10))


_Share = tuple[str, float | None, _Limits]
"""A text, the share that it is about (None: not known), and its limits."""

_STALLED = _Limits(note=0.02, serious=0.05)
_OTHERS = _Limits(note=0.1, serious=0.5)
_STOLEN = _Limits(note=0.02, serious=0.1)


def sentences(noise: Mapping[str, Any], processors: int) -> tuple[list[str], list[str]]:
    """Return (why the figure may not be ranked, what a reader should know).

    Args:
        noise: what the worker saw (`scenarios.worker.disturbance.Disturbance`); empty: nothing.
        processors: that the worker may use. On many of them the same work of others weighs less.
    """
    serious: list[str] = []
    notes: list[str] = []
    if not noise:
        return serious, notes
    for text, share, limits in _shares(noise, processors):
        if share is not None and share >= limits.serious:
            serious.append(text)
        elif share is not None and share >= limits.note:
            notes.append(text)
    notes += _notes(noise, processors)
    slower = noise.get("fresh_slower")
    if slower is not None:
        serious.append(Unranked.FRESH_SLOWER.format(slower=slower))
    return serious, notes


def _shares(noise: Mapping[str, Any], processors: int) -> Iterator[_Share]:
    """Each way in which a machine disturbs a measurement."""
    stalled = noise["stalled_seconds"]
    seconds = noise["seconds"]
    longest = noise["longest_stall_seconds"]
    stood_still = Unranked.STOOD_STILL.format(stalled=stalled, seconds=seconds, longest=longest)
    yield stood_still, stalled / seconds, _STALLED
    for text, share, limits in (
        (Unranked.OTHER_PROGRAMS, noise["other_processors"], _OTHERS),
        (Unranked.STOLEN, noise["stolen_processors"], _STOLEN),
    ):
        yield text.format(share=share or 0), share, limits.of_many(processors)


def _notes(noise: Mapping[str, Any], processors: int) -> Iterator[str]:
    children = noise.get("children")
    if children:
        processes = f"{children} more process{'es' if children > 1 else ''}"
        yield Note.PROCESSES.format(processes=processes, share=noise["children_processors"])
    threads = noise.get("threads")
    if threads is not None and threads != processors:
        counted = f"{threads} thread{'s' if threads > 1 else ''}"
        yield Note.THREADS.format(threads=counted, processors=processors)
