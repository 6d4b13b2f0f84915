"""Which instructions of XLA's programs ran in a call, and when, from the events of XLA's profiler.

JAX and TensorFlow have this profiler. Standard library only.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from formats.profile import HOST, OTHER
from sut.evidence.wall_time import Span, Trace

WINDOW = "profiled steps"
"""The name of the event around the steps to look at."""
DEVICE = "/device:"
"""The beginning of the names of planes with the events of an accelerator."""
STREAM = "Stream"
"""The beginning of the names of lines with its kernels. Other lines sum them up."""

# An instruction may begin work that other threads do. This event marks the end of this work.
_END = re.compile(r"end: (.+)")


@dataclass(frozen=True)
class Program:
    """A compiled program.

    Attributes:
        classes: name of an instruction → its class.
        bytes_accessed: bytes that XLA says a run reads and writes; None: it does not say.
    """

    classes: Mapping[str, str]
    bytes_accessed: float | None = None


@dataclass(frozen=True)
class Event:
    """An event of a profile.

    Attributes:
        lane: the thread or the stream on which it ran.
        start_ns, end_ns: on the profile's clock.
        on_device: whether it is a kernel of an accelerator.
        instruction: the instruction that ran, if it is one, and its `module`.
        run: the number of the program's run.
    """

    name: str
    lane: object
    start_ns: float
    end_ns: float
    on_device: bool = False
    instruction: str = ""
    module: str = ""
    run: object = None


def trace_of(
    profiler: str,
    events: Iterable[Event],
    programs: Mapping[str, Program],
    class_of: Callable[[str], str] = lambda name: "",
) -> Trace:
    """Return the trace of these events.

    Instructions that only run others, such as loops, are left out: their own time is overhead.
    Raises ValueError if the steps to look at are not among the events.

    Args:
        profiler: the profiler's name.
        programs: name of a module → its program.
        class_of: the name of an event that is no instruction → its class. Empty: it computes
            nothing.
    """
    ordered = sorted(events, key=lambda event: event.start_ns)
    window = next((event for event in ordered if event.name == WINDOW), None)
    if window is None:
        raise ValueError(f"{profiler} recorded nothing of the profiled steps")
    ends = _ends(ordered)
    spans: list[Span] = []
    on_device: list[Span] = []
    for event in ordered:
        if not event.instruction:
            kind = class_of(event.name)
            if kind and kind != HOST:
                name = event.name.rpartition(":")[2]
                spans.append(Span(event.lane, name, kind, event.start_ns, event.end_ns))
            continue
        program = programs.get(event.module)
        kind = program.classes.get(event.instruction, OTHER) if program else OTHER
        if kind == HOST:
            continue
        if event.on_device:
            span = Span(event.lane, event.instruction, kind, event.start_ns, event.end_ns)
            on_device.append(span)
        else:
            end_ns = _end_ns(event, ends.get(event.instruction, []))
            # Instructions run at the same time, and one thread may begin several.
            lane = len(spans)
            spans.append(Span(lane, event.instruction, kind, event.start_ns, end_ns))
    return Trace(
        profiler=profiler,
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        spans=on_device or spans,
        bytes_accessed=_bytes_accessed(ordered, programs, window),
    )


def _ends(ordered: Iterable[Event]) -> dict[str, list[float]]:
    """Return name of an instruction → the times at which its work ended, ascending."""
    ends: dict[str, list[float]] = {}
    for event in ordered:
        ended = _END.fullmatch(event.name)
        if ended:
            ends.setdefault(ended[1], []).append(event.start_ns)
    return ends


def _end_ns(event: Event, ends: Sequence[float]) -> float:
    """Return when the work of an instruction ended."""
    next_end = bisect_left(ends, event.start_ns)
    return ends[next_end] if next_end < len(ends) else event.end_ns


def _bytes_accessed(
    events: Iterable[Event], programs: Mapping[str, Program], window: Event
) -> float | None:
    """Return the bytes that all runs in the window read and write, as XLA estimates them. None if
    it does not say for each.
    """
    runs = set()
    for event in events:
        if event.module and window.start_ns <= event.start_ns <= window.end_ns:
            runs.add((event.module, event.run))
    moved = 0.0
    for module, run in runs:
        program = programs.get(module)
        if run is None or program is None or program.bytes_accessed is None:
            return None
        moved += program.bytes_accessed
    return moved or None
