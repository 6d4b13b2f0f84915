"""Whether inputs that the SUT has never met take longer than those it met before: it does where answers are kept, in memory or on disk.

Taken right after the performance test, in turns, so that a machine whose speed drifts hits all alike. The test's own first visits cannot
tell: a processor and its caches warm up in them, and honest SUTs took up to 24 times as long.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat
from scenarios.worker.job import Job
from scenarios.worker.qsl import Qsl
from sut.contract import Batch, Inference

_clock = time.perf_counter_ns
# Rounds: so many at least, and until so much time is spent.
_LEAST, _MOST, _ENOUGH_NS = 3, 32, 500_000_000


def compare(job: Job, sut: Inference, known: Qsl, beat: Heartbeat) -> dict[str, float]:
    """Median nanoseconds of a batch of fresh inputs, of the same batch again, and of one of the data set; `slower`: the first over the
    lesser of the others, about 1 where nothing is kept. The first round is dropped: buffers are made in it.

    Args:
        known: the data set, whose samples the performance test has asked for.
    """
    assert job.fresh is not None
    fresh, size = Qsl(job.fresh, sut.prepare), job.workload.batch_size
    rounds = max(1, min(_MOST + 1, fresh.count // size))
    beat.enter("fresh inputs", LOAD_LIMIT_S, rounds)
    for each in (fresh, known):
        each.load(range(min(each.count, rounds * size)))
    spent: list[tuple[int, int, int]] = []
    began = _clock()
    while len(spent) < rounds and (len(spent) <= _LEAST or _clock() - began < _ENOUGH_NS):
        rows = np.arange(len(spent) * size, (len(spent) + 1) * size)
        new, old = (each.batch((rows % len(each.singles)).tolist(), size) for each in (fresh, known))
        spent.append((_timed(sut, new), _timed(sut, new), _timed(sut, old)))
        beat.bump(1)
    first, again, met = (float(statistics.median(column)) for column in zip(*(spent[1:] or spent), strict=True))
    return {"rounds": len(spent), "fresh_ns": first, "again_ns": again, "met_ns": met, "slower": first / min(again, met)}


def _timed(sut: Inference, batch: Batch) -> int:
    start = _clock()
    sut.to_host(sut.predict(batch))
    return _clock() - start
