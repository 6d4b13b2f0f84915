"""Profiles some steps of a loaded SUT.

A step is one batch that is answered, or one step of a training. Every step has the first batch of
the inputs, so that all SUTs do the same work.
"""

from __future__ import annotations

import importlib
import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from formats.job import Job
from formats.outcome import Fields
from formats.writing import write_json
from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat, hang_limit_s
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.watching import evidence
from sut.contract import Batch, Inference, Training, Unsupported
from sut.evidence import wall_time
from sut.evidence.wall_time import Window
from sut.registry import FIT, framework_of, profiler_of

Steps = Callable[[int, Window], None]
"""(number of steps, context around them) → None. It runs the steps within the context."""

_FILE = "profile.json"
_SECONDS = 3.0
_LEAST = 3
_MOST = 20
_FIRST_STEPS = 2  # of a training: one compiles, and the next may record CUDA graphs


def profile(job: Job, sut: Any, beat: Heartbeat, slowest_ns: float) -> Fields:
    """Time some steps, run as many under the framework's profiler, and write profile.json, a
    `StepProfile`.

    Raises Unsupported if there is no profiler for the SUT's framework.
    """
    name = profiler_of(job.sut)
    if name is None:
        framework = framework_of(job.sut) or job.sut
        raise Unsupported(f"profile: nothing is written for the profiler of {framework}")
    run = _steps(job, sut)
    beat.enter("warm-up", LOAD_LIMIT_S)
    run(_FIRST_STEPS, _Stopwatch().measured)
    first = _Stopwatch()
    run(1, first.measured)
    count = min(_MOST, max(_LEAST, math.ceil(_SECONDS / first.seconds)))
    beat.enter("time", hang_limit_s(count * first.seconds * 1e9))
    unprofiled = _Stopwatch()
    run(count, unprofiled.measured)
    beat.enter("profile", LOAD_LIMIT_S)
    trace = importlib.import_module(name).record(lambda window: run(count, window))
    step = wall_time.divided(trace, count, unprofiled.seconds / count)
    write_json(job.log_dir / _FILE, step)
    return {}


def prepare(job: Job) -> None:
    """Prepare the profiler of the SUT's framework, if it must know of a profile before the SUT is
    loaded.
    """
    name = profiler_of(job.sut)
    if name:
        module = importlib.import_module(name)
        getattr(module, "prepare", lambda: None)()


def _steps(job: Job, sut: Any) -> Steps:
    """Return the function that runs steps on the first batch of the job's inputs.

    `sut`: an `Inference` or a `Training`.
    """
    size = job.workload.batch_size
    qsl = Qsl(job.inputs, sut.prepare)
    rows = range(min(size, qsl.count))
    qsl.load(rows)
    batch = qsl.batch(rows, size)
    if job.workload.task == FIT:
        return lambda steps, window: _train(sut, batch, steps, window)
    return lambda steps, window: answer(sut, batch, steps, window)


def answer(sut: Inference, batch: Batch, steps: int, window: Window) -> None:
    """Answer the batch several times within the context."""
    with window():
        evidence.answer(sut, itertools.repeat(batch, steps))


def _train(sut: Training, batch: Batch, steps: int, window: Window) -> None:
    """Train one step more, because a framework's loop begins with work that no other step has. The
    context is entered at the end of that step.
    """
    around = window()
    ended = 0

    def on_step(loss: Callable[[], float]) -> None:
        nonlocal ended
        ended += 1
        if ended == 1:
            sut.synchronise()
            around.__enter__()
        elif ended == steps + 1:
            sut.synchronise()
            around.__exit__(None, None, None)

    sut.fit(itertools.repeat(batch, steps + 1), steps + 1, on_step)
    if ended != steps + 1:
        raise ValueError(f"the SUT made {ended} steps of {steps + 1} batches")


class _Stopwatch:
    """Measures the time in a context."""

    seconds = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        start_s = time.perf_counter()
        yield
        self.seconds = time.perf_counter() - start_s
