"""Divides the time of a call among the operators that ran in it, from the spans of a trace.

Every instant of the call belongs to the operators that run at that instant. If several threads or
kernels run at once, each gets an equal part of it. If none runs, the instant is overhead of the
host. So the sum is the time of the call. Standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from formats.profile import CLASSES, HOST, Operation, StepProfile

Window = Callable[[], AbstractContextManager[Any]]
"""A context around the steps of a trace to look at."""

_MOST_OPERATIONS = 20


@dataclass(frozen=True)
class Span:
    """The time in which an operator ran.

    Attributes:
        lane: a thread, a stream or the kernel itself. Of the spans of a lane, the inner one counts.
        kind: its class (`formats.profile.CLASSES`).
        start_ns, end_ns: on the clock of the trace.
    """

    lane: Hashable
    name: str
    kind: str
    start_ns: float
    end_ns: float


@dataclass(frozen=True)
class Trace:
    """What a framework's profiler recorded of a call.

    Attributes:
        profiler: its name.
        start_ns, end_ns: the part of the call to look at.
        spans: the operators that ran, in any order.
        notes: sentences for a reader.
    """

    profiler: str
    start_ns: float
    end_ns: float
    spans: Sequence[Span]
    notes: tuple[str, ...] = ()


def divided(trace: Trace, steps: int, unprofiled_seconds: float) -> StepProfile:
    """Return the profile of a step.

    Args:
        trace: of `steps` steps.
        unprofiled_seconds: the mean time of a step without the profiler.
    """
    clipped = (_within(span, trace) for span in trace.spans)
    spans = [each for each in clipped if each]
    times = _times(spans)
    calls = Counter((span.name, span.kind) for span in spans)
    seconds = dict.fromkeys(CLASSES, 0.0)
    for (_, kind), ns in times.items():
        seconds[kind] += ns / steps / 1e9
    idle_ns = trace.end_ns - trace.start_ns - sum(times.values())
    seconds[HOST] += idle_ns / steps / 1e9
    operations = [
        Operation(name=name, kind=kind, seconds=ns / steps / 1e9, calls=calls[name, kind] / steps)
        for (name, kind), ns in times.most_common(_MOST_OPERATIONS)
    ]
    return StepProfile(
        profiler=trace.profiler,
        steps=steps,
        unprofiled_seconds=unprofiled_seconds,
        seconds=seconds,
        kernels=_kernels(spans) / steps,
        operations=tuple(operations),
        notes=trace.notes,
    )


def _within(span: Span, trace: Trace) -> Span | None:
    """Return the part of a span that is in the call. None: there is none."""
    start_ns = max(span.start_ns, trace.start_ns)
    end_ns = min(span.end_ns, trace.end_ns)
    if end_ns <= start_ns:
        return None
    return Span(span.lane, span.name, span.kind, start_ns, end_ns)


def _times(spans: Sequence[Span]) -> Counter[tuple[str, str]]:
    """Return (name, class) of operators → their nanoseconds."""
    marks: list[tuple[float, int, tuple[str, str]]] = []
    for span in innermost(spans):
        marks.append((span.start_ns, 1, (span.name, span.kind)))
        marks.append((span.end_ns, -1, (span.name, span.kind)))
    marks.sort(key=lambda mark: mark[0])
    times = Counter[tuple[str, str]]()
    running = Counter[tuple[str, str]]()
    count = 0
    before_ns = 0.0
    for now_ns, change, key in marks:
        if count and now_ns > before_ns:
            share_ns = (now_ns - before_ns) / count
            for each, times_running in running.items():
                times[each] += share_ns * times_running  # type: ignore[assignment]
        before_ns = now_ns
        count += change
        running[key] += change
        if not running[key]:
            del running[key]
    return times


def _kernels(spans: Iterable[Span]) -> int:
    """Return how many operators compute or move data.

    An operator may only call others of its class. Then these count, and it does not.
    """
    count = 0
    for lane in _lanes(spans):
        around: list[Span] = []  # the spans around the next one, the outermost first
        callers = set[int]()  # identities of spans
        for span in lane:
            while around and around[-1].end_ns < span.end_ns:
                around.pop()
            callers.update(id(outer) for outer in around if outer.kind == span.kind)
            around.append(span)
        count += sum(span.kind != HOST and id(span) not in callers for span in lane)
    return count


def _lanes(spans: Iterable[Span]) -> Iterable[list[Span]]:
    """Return the spans of each lane, sorted so that a span comes before those within it."""
    lanes: dict[Hashable, list[Span]] = {}
    for span in spans:
        lanes.setdefault(span.lane, []).append(span)
    for lane in lanes.values():
        lane.sort(key=lambda span: (span.start_ns, -span.end_ns))
    return lanes.values()


def innermost(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the parts of the spans in which no inner span of the same lane runs."""
    for lane in _lanes(spans):
        yield from _innermost_of_lane(lane)


def _innermost_of_lane(lane: list[Span]) -> Iterator[Span]:
    around: list[Span] = []  # the rest of each span around the next one, the outermost first
    for span in lane:
        yield from _ended(around, span.start_ns)
        if around:
            outer = around.pop()
            if span.start_ns > outer.start_ns:
                yield _part(outer, outer.start_ns, span.start_ns)
            # A clock's rounding may let an inner span end after the outer one.
            around.append(_part(outer, min(span.end_ns, outer.end_ns), outer.end_ns))
        around.append(span)
    yield from _ended(around, float("inf"))


def _ended(around: list[Span], now_ns: float) -> Iterator[Span]:
    """Remove the spans that have ended, and yield what is left of them."""
    while around and around[-1].end_ns <= now_ns:
        span = around.pop()
        if span.end_ns > span.start_ns:
            yield span


def _part(span: Span, start_ns: float, end_ns: float) -> Span:
    return Span(span.lane, span.name, span.kind, start_ns, end_ns)
