"""Divides the time of a call among the operators that ran in it, from the spans of a trace.

Every instant of the call belongs to the operators that run at that instant. If several threads or
kernels run at once, each gets an equal part of it. If none runs, the instant is overhead of the
host. So the sum is the time of the call. Standard library only.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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


def run(call: Callable[[Window], None]) -> tuple[int, int]:
    """Run a call. Return when its steps began and ended, in nanoseconds of time.perf_counter_ns."""
    bounds = list[int]()

    @contextmanager
    def window() -> Iterator[None]:
        bounds.append(time.perf_counter_ns())
        yield
        bounds.append(time.perf_counter_ns())

    call(window)
    start_ns, end_ns = bounds
    return start_ns, end_ns


def divided(trace: Trace, steps: int, unprofiled_seconds: float) -> StepProfile:
    """Return the profile of a step.

    Args:
        trace: of `steps` steps.
        unprofiled_seconds: the mean time of a step without the profiler.
    """
    clipped = (_within(span, trace) for span in trace.spans)
    spans = [each for each in clipped if each]
    times, kernels = _swept(spans)
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
        kernels=kernels / steps,
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


def _swept(spans: Sequence[Span]) -> tuple[Counter[tuple[str, str]], int]:
    """Return ((name, class) of operators → their nanoseconds, how many operators compute or move
    data). An operator may only call others of its class. Then these count, and it does not.
    """
    begins = [(span.start_ns, True, span) for span in spans]
    ends = [(span.end_ns, False, span) for span in spans]
    marks = sorted([*begins, *ends], key=lambda mark: (mark[0], mark[1], -mark[2].end_ns))
    times = Counter[tuple[str, str]]()
    callers = set[int]()  # identities of spans
    running: dict[Hashable, list[Span]] = {}  # lane → its spans that run, the outermost first
    before_ns = 0.0
    for now_ns, is_begin, span in marks:
        for inner in [lane[-1] for lane in running.values()]:
            share_ns = (now_ns - before_ns) / len(running)
            times[inner.name, inner.kind] += share_ns  # type: ignore[assignment]
        before_ns = now_ns
        lane = running.setdefault(span.lane, [])
        if is_begin:
            callers.update(id(outer) for outer in lane if outer.kind == span.kind)
            lane.append(span)
            continue
        lane.remove(span)
        if not lane:
            del running[span.lane]
    kernels = [span for span in spans if span.kind != HOST and id(span) not in callers]
    return times, len(kernels)
