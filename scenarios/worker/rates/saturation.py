"""Finds how many requests in flight saturate an engine, and how many samples a second it answers
then.

The requests in flight double until the rate stops rising. A test that sends fewer would measure the
client's own limit, and its figure would depend on the length of the test.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter_ns as _clock

import numpy as np

from formats.job import Calibration, Job
from formats.outcome import Plan
from scenarios.table import SCENARIOS
from scenarios.worker import preflight
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.preflight import Refused
from scenarios.worker.queries import engine
from scenarios.worker.queries.qsl import Qsl, shuffled
from scenarios.worker.rates import rate_search
from scenarios.worker.watch import Watch

LEAST_ROUNDS = 12
"""A test is at least so many times as long as its requests in flight take. Then its ramp-up and its
tail change the figure by less than a twelfth.
"""
_RISE = 1.05
"""An engine is saturated if twice the requests in flight give less than so many times the rate."""
_CLEAR_RISE = 1.2
"""A smaller rise is decided by as many samples of both levels."""
_LEAST_STEP = 1.25
"""The last level may be less than twice the one before it, but not less than so many times."""
_CLIENT_SHARE = 0.85
"""A client that computes, or waits for a processor, for a larger share of the time may be slower
than the engine. Python runs one thread at a time.
"""
_ROUNDS_A_LEVEL = 2
_TASKS = Path("/proc/self/task")


@dataclass(frozen=True, kw_only=True)
class Level:
    """The answers while a number of requests was kept in flight.

    Attributes:
        ended_ns: when each sample was answered, in nanoseconds from the first submission,
            ascending.
        longest_ns: the longest time from a submission to its answer.
        client_share: the share of the time in which this process computed or waited for a
            processor.
    """

    in_flight: int
    ended_ns: Sequence[int] | np.ndarray
    longest_ns: float
    client_share: float

    @property
    def rate(self) -> float:
        """Samples a second: the slope of the number of answers over time, by least squares. It
        hardly depends on where the last round of equally long answers is cut off.
        """
        seconds = np.asarray(self.ended_ns, float) / 1e9
        from_mean = seconds - seconds.mean()
        squares = from_mean @ from_mean
        if not squares:
            return len(seconds) / float(seconds[-1])
        return float(from_mean @ np.arange(len(seconds)) / squares)

    @property
    def calibration(self) -> Calibration:
        """The fields of a calibration that follow from it."""
        sample_ns = 1e9 / self.rate
        return {
            "fastest_sample_ns": sample_ns,
            "median_sample_ns": sample_ns,
            "in_flight": self.in_flight,
        }


Run = Callable[[int, int], Level]
"""(requests to keep in flight, samples): answer so many samples."""


def calibrate(
    job: Job, sut: engine.EngineSut, qsl: Qsl, beat: Heartbeat, slowest_ns: float
) -> Calibration:
    """Keep more and more requests in flight, until the engine is saturated or answers at the rate
    that the user gives. Raises Refused.

    `in_flight`: the requests in flight, which may be the user's number. `longest_ns`: see `find`.
    `saturated`: 0 if the engine might be faster than the user's rate.
    """
    order = shuffled(qsl.count)
    began_ns = _clock()
    issued = 0

    def run(in_flight: int, samples: int) -> Level:
        nonlocal issued
        rows = order[(issued + np.arange(samples)) % qsl.count].tolist()
        issued += samples
        return _level(job, sut, qsl, beat, rows, in_flight)

    least_ns = job.limits.calibration_seconds * 1e9 / 10
    rate = job.cell.rate or math.inf
    chosen = job.workload.options.get("in_flight")
    if chosen:
        level = measured(run, chosen, least_ns)
        longest_ns = level.longest_ns
    else:
        level, longest_ns = find(
            run,
            most=sut.engine.most_in_flight,
            least_ns=least_ns,
            check=partial(_check_longest, job),
            enough=rate,
        )
    return {
        **level.calibration,
        "slowest_batch_ns": max(level.longest_ns, slowest_ns),
        "longest_ns": longest_ns,
        "saturated": int(bool(chosen) or level.rate < rate),
        "spent_ns": _clock() - began_ns,
    }


def _level(
    job: Job,
    sut: engine.EngineSut,
    qsl: Qsl,
    beat: Heartbeat,
    rows: Sequence[int],
    in_flight: int,
) -> Level:
    """Answer these rows of `qsl`."""
    from scenarios.worker import loadgen

    watch = Watch()
    respond = loadgen.responder(beat, watch, dry=True)
    requests = engine.flight(sut, respond, job.answer, watch, in_flight)
    earlier_busy_ns = busy_ns()
    start_ns = _clock()
    engine.answer_all(requests, qsl, range(len(rows)), rows)
    share = (busy_ns() - earlier_busy_ns) / (_clock() - start_ns)
    if in_flight == 1 and not job.cell.rate:
        rate_search.check_seen(job.cell, watch)
    return Level(
        in_flight=in_flight,
        ended_ns=np.asarray(watch.times, np.int64) - start_ns,
        longest_ns=requests.longest_ns,
        client_share=min(1.0, share),
    )


def _check_longest(job: Job, longest_ns: float) -> None:
    """Raises Refused if a quick test of Offline would be too long for answers of this length."""
    if job.serves:
        return
    seconds = LEAST_ROUNDS * longest_ns / 1e9
    plan = Plan(LEAST_ROUNDS, LEAST_ROUNDS, seconds, 0, 0, False)
    preflight.check_time(plan, job, SCENARIOS[job.scenario].load().least(job))


def find(
    run: Run,
    *,
    most: int,
    least_ns: float,
    check: Callable[[float], None] = lambda longest_ns: None,
    enough: float = math.inf,
) -> tuple[Level, float]:
    """Return (the least level whose double is no faster, nanoseconds of the longest answer in half
    as many, which waited for no other one). Raises Refused if this client can't show such a level.

    Args:
        most: the requests that the client can keep in flight. They are the last level, and take the
            place of a double that is more.
        least_ns: how long a level is measured at least. A decision takes up to ten times as long.
        check: gets the nanoseconds of the first answer; raises Refused if they are too many.
        enough: a level with this rate, in samples a second, is returned even if it is not
            saturated.
    """
    level = measured(run, 1, least_ns)
    longest_ns = level.longest_ns
    check(longest_ns)
    while level.rate < enough:
        following = min(2 * level.in_flight, most)
        step = following / level.in_flight
        if step < _LEAST_STEP:
            raise Refused(
                f"the engine is not saturated by {level.in_flight:,} requests in flight"
                f" ({level.rate:.4g} samples/s, and more with each doubling), and this process can"
                f" keep {most:,} (`ulimit -n` limits them), so there is no figure of the engine:"
                " --sut-option in_flight=N measures it with N requests in flight"
            )
        higher = measured(run, following, least_ns)
        if higher.rate < _of_step(_CLEAR_RISE, step) * level.rate:
            if higher.ended_ns[-1] < 10 * least_ns:  # it may be disturbed
                higher = measured(run, higher.in_flight, 10 * least_ns)
            level = measured(run, level.in_flight, least_ns, samples=len(higher.ended_ns))
        if higher.rate < _of_step(_RISE, step) * level.rate:
            if higher.client_share > _CLIENT_SHARE:
                raise Refused(
                    f"this client is saturated, and not the engine: with {higher.in_flight:,}"
                    f" requests in flight ({higher.rate:.4g} samples/s) it computed, or waited for"
                    f" a processor, {higher.client_share:.0%} of the time, so there is no figure of"
                    " the engine: --sut-option in_flight=N measures it with N requests in flight"
                )
            break
        level, longest_ns = higher, max(longest_ns, level.longest_ns)
    return level, longest_ns


def _of_step(rise: float, step: float) -> float:
    """The rise with `step` times the requests in flight, if `rise` is that with twice as many."""
    return 1 + (rise - 1) * (step - 1)


def measured(run: Run, in_flight: int, least_ns: float, samples: int = 0) -> Level:
    """Return a level of at least so many samples, of two rounds of requests in flight, and of
    `least_ns`.
    """
    samples = max(samples, _ROUNDS_A_LEVEL * in_flight)
    while True:
        level = run(in_flight, samples)
        spent_ns = level.ended_ns[-1]
        if spent_ns >= least_ns:
            return level
        samples = int(samples * max(2, 1.2 * least_ns / spent_ns))


def busy_ns() -> int:
    """Return the nanoseconds in which the threads of this process computed or waited for a
    processor. Only the first if the system does not report the second (Linux,
    Documentation/scheduler/sched-stats.rst).
    """
    numbers: list[int] = []
    for file in _TASKS.glob("*/schedstat"):
        with suppress(OSError, ValueError):  # a thread may end meanwhile
            numbers += map(int, file.read_text(encoding="ascii").split()[:2])
    return sum(numbers) if numbers else time.process_time_ns()
