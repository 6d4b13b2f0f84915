"""Which instructions of XLA's programs ran in a call, and when, from the events of XLA's profiler.

JAX and TensorFlow have this profiler. Standard library only.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from formats.profile import HOST, OTHER
from sut.evidence import operation_classes
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
        number: XLA's own number of the program.
    """

    classes: Mapping[str, str]
    number: int | None = None


@dataclass(frozen=True)
class Event:
    """An event of a profile.

    Attributes:
        lane: the thread or the stream on which it ran.
        start_ns, end_ns: on the profile's clock.
        on_device: whether it is a kernel of an accelerator.
        instruction: the instruction that ran, if it is one, and its `module`.
        program: XLA's number of the program.
        run: the number of the program's run.
    """

    name: str
    lane: Hashable
    start_ns: float
    end_ns: float
    on_device: bool = False
    instruction: str = ""
    module: str = ""
    program: object = None
    run: object = None

    @classmethod
    def of(
        cls,
        name: str,
        lane: Hashable,
        start_ns: float,
        duration_ns: float,
        facts: Mapping[str, Any],
        on_device: bool,
    ) -> Event:
        """Return an event with these facts, by XLA's own names of them."""
        return cls(
            name=name,
            lane=lane,
            start_ns=start_ns,
            end_ns=start_ns + duration_ns,
            on_device=on_device,
            instruction=str(facts.get("hlo_op", "")),
            module=str(facts.get("hlo_module", "")),
            program=facts.get("program_id"),
            run=facts.get("run_id"),
        )


def trace_of(
    profiler: str,
    events: Iterable[Event],
    programs: Mapping[str, Sequence[Program]],
    class_of: Callable[[str], str] = lambda name: "",
) -> Trace:
    """Return the trace of these events.

    Instructions that only run others, such as loops, are left out: their own time is overhead.
    Raises ValueError if the steps to look at are not among the events.

    Args:
        profiler: the profiler's name.
        programs: name of a module → the programs with this name.
        class_of: the name of an event that is no instruction → its class. Empty: it computes
            nothing.
    """
    ordered = sorted(events, key=lambda event: event.start_ns)
    window = next((event for event in ordered if event.name == WINDOW), None)
    if window is None:
        raise ValueError(f"{profiler} recorded nothing of the profiled steps")
    ends = _ends(ordered)
    runs = _runs(ordered, programs)
    spans: list[Span] = []
    on_device: list[Span] = []
    for event in ordered:
        lane = event.lane
        name = event.name
        end_ns = event.end_ns
        if event.instruction:
            name = event.instruction
            kind = _class_in(runs[_run_of(event)], name)
        elif event.on_device:  # a framework's own kernel, or a copy
            kind = operation_classes.of("cuda", name)
        else:
            kind = class_of(name)
            name = name.rpartition(":")[2]
        if kind in ("", HOST):
            continue
        if event.on_device:
            on_device.append(Span(lane, name, kind, event.start_ns, end_ns))
            continue
        if event.instruction:
            # Instructions run at the same time, and one thread may begin several.
            lane = len(spans)
            end_ns = _end_ns(event, ends.get(name, []))
        spans.append(Span(lane, name, kind, event.start_ns, end_ns))
    return Trace(
        profiler=profiler,
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        spans=on_device or spans,
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


def _run_of(event: Event) -> Hashable:
    """Return the run of a program to which an instruction belongs. Without a number of the run, it
    stands alone.
    """
    if event.run is None:
        return event.module, event.program, event.instruction
    return event.module, event.program, event.run


def _runs(
    events: Iterable[Event], programs: Mapping[str, Sequence[Program]]
) -> dict[Hashable, list[Program]]:
    """Return run → the programs that it may be: those with the module's name that have the most of
    the instructions that ran, and of these the one with the number.
    """
    seen: dict[Hashable, set[str]] = defaultdict(set)
    first: dict[Hashable, Event] = {}
    for event in events:
        if event.instruction:
            seen[_run_of(event)].add(event.instruction)
            first.setdefault(_run_of(event), event)
    runs: dict[Hashable, list[Program]] = {}
    for run, instructions in seen.items():
        named = programs.get(first[run].module, ())
        known = [len(instructions & program.classes.keys()) for program in named]
        most = max(known, default=0)
        best = [each for each, count in zip(named, known, strict=True) if count == most]
        runs[run] = _numbered(best, first[run].program)
    return runs


def _numbered(programs: list[Program], number: object) -> list[Program]:
    """Return the program with this number. All programs if no number is known.

    XLA numbers programs in the order in which it makes them. It numbers a program from a cache
    again after the number that its events have, and before it makes the next program.
    """
    if not isinstance(number, int):
        return programs
    later = [each for each in programs if each.number is not None and each.number >= number]
    return sorted(later, key=lambda each: each.number or 0)[:1] or programs


def _class_in(programs: Sequence[Program], instruction: str) -> str:
    """Return the class of an instruction. OTHER if the programs have several."""
    classes = {program.classes.get(instruction, OTHER) for program in programs}
    return classes.pop() if len(classes) == 1 else OTHER
