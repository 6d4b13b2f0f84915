"""This module compares the times of inputs that the SUT has never met with those of inputs that it met before.

New inputs take longer if the SUT keeps answers, in memory or on disk. Inputs of both kinds are timed in turns, right after the performance
test, so that a drift of the machine's speed changes all times alike. The first visits within the test cannot be used for this: a processor
and its caches warm up in them, and honest SUTs took up to 24 times as long.
"""

from __future__ import annotations

import time

import numpy as np

from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat
from scenarios.worker.job import Job
from scenarios.worker.qsl import Qsl
from sut.contract import Batch, Inference

_clock = time.perf_counter_ns
# Rounds: more than so many, and until so much time is spent; all there are where fresh inputs look slower than this.
_LEAST, _MOST, _ENOUGH_NS, _SUSPICIOUS = 3, 33, 500_000_000, 1.5
_LONG_NS = 10_000_000_000
"""No further round after so much time: what disturbs a batch of seconds is little beside it, and four rounds are twelve batches."""


def compare(job: Job, sut: Inference, known: Qsl, beat: Heartbeat) -> dict[str, float]:
    """The least nanoseconds of a batch of fresh inputs, of the same batch again, and of one of the data set.

    `slower`: the first over the lesser of the others, about 1 where nothing is kept. The least of several times is the one that other
    programs disturbed least; where it still looks as if something were kept, all rounds there are inputs for are taken. Where there are
    several, the first is dropped: buffers are made in it.

    Args:
        known: the data set, whose samples the performance test has asked for.
    """
    assert job.fresh is not None
    fresh, size = Qsl(job.fresh, sut.prepare), job.workload.batch_size
    rounds = max(1, min(_MOST, fresh.count // size))
    beat.enter("fresh inputs", LOAD_LIMIT_S, rounds)
    for each in (fresh, known):
        each.load(range(min(each.count, rounds * size)))
    times: list[tuple[int, int, int]] = []
    began = _clock()
    while len(times) < rounds and (not _enough(len(times), _clock() - began) or _slower(times) > _SUSPICIOUS):
        rows = np.arange(len(times) * size, (len(times) + 1) * size)
        new, old = (each.batch((rows % len(each.singles)).tolist(), size) for each in (fresh, known))
        times.append((_timed(sut, new), _timed(sut, new), _timed(sut, old)))
        beat.bump(1)
    first, again, met = _least(times)
    return {"rounds": len(times), "fresh_ns": first, "again_ns": again, "met_ns": met, "slower": _slower(times)}


def _enough(rounds: int, spent_ns: int) -> bool:
    return spent_ns >= _LONG_NS or (rounds > _LEAST and spent_ns >= _ENOUGH_NS)


def _least(times: list[tuple[int, int, int]]) -> tuple[int, int, int]:
    first, again, met = (min(column) for column in zip(*(times[1:] or times), strict=True))
    return first, again, met


def _slower(times: list[tuple[int, int, int]]) -> float:
    first, again, met = _least(times)
    return first / min(again, met)


def _timed(sut: Inference, batch: Batch) -> int:
    start = _clock()
    sut.to_host(sut.predict(batch))
    return _clock() - start
