"""This module compares the times of inputs that the SUT has never met with those of inputs that it
met before.

New inputs take longer if the SUT keeps answers, in memory or on disk. Inputs of both kinds are
timed in turns, right after the performance test, so that a drift of the machine's speed changes all
times alike. The first visits within the test cannot be used for this: a processor and its caches
warm up in them, and honest SUTs took up to 24 times as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from time import perf_counter_ns as _clock

import numpy as np

from formats.job import Job
from formats.outcome import Fresh
from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.system import disturbance
from scenarios.worker.watching import evidence
from scenarios.worker.watching.warm_up import timed
from sut.contract import Batch, Inference

Times = list[tuple[float, float, float]]
"""For each round, nanoseconds of a fresh batch, of the same batch again, and of a batch that was
met.
"""

# There are more than _LEAST rounds, and they go on until _ENOUGH_NS is spent. If fresh inputs look
# slower than _SUSPICIOUS, or DOUBTFUL if batches are long, all rounds are run, up to _MOST, or up
# to ROUNDS if these are long.
_LEAST, _MOST, _ENOUGH_NS, _SUSPICIOUS = 1, 33, 500_000_000, 1.15
_LONG_NS = 10_000_000_000
"""After _LONG_NS there are at most ROUNDS. If a batch takes LONG_BATCH_NS, one round is enough,
and it has no batch that was met, unless fresh inputs look slower. A disturbance is small compared
with such a batch, and a SUT that keeps answers has those of the batch before.
"""
DOUBTFUL, ROUNDS, OTHERS = 1.3, 12, 0.1
"""Fresh inputs that take more than DOUBTFUL times as long are reported. They show kept answers if
they do so in each third of at least ROUNDS rounds while other programs and the hypervisor took less
than OTHERS processors. The rules of a round contain the same numbers.
"""


def compare(
    job: Job,
    sut: Inference,
    known: Qsl,
    beat: Heartbeat,
    hang_s: float,
    requests: Iterable[int] = (),
) -> Fresh:
    """Measure the least nanoseconds of a batch of fresh inputs, of the same batch again, and of a
    batch of the data set. If the test had batches of several sizes, this is done with the smallest,
    the median and the largest, and the result is that of the `size` with the largest `slower`.

    `slower`: the first time divided by the lesser of the others, about 1 if no answer is kept. The
    least of several times is the one that other programs disturbed least. If answers still look
    kept, all rounds are run that there are inputs for. The first of several rounds is dropped,
    because buffers are allocated in it. If fresh answers have more tokens, the time of met inputs
    is scaled up in proportion.

    Raises ValueError if the framework computes while the SUT prepares fresh inputs.

    Args:
        known: the data set, whose samples the performance test has requested.
        hang_s: seconds after which a batch counts as hung.
        requests: the requests of each batch of the test; empty: its batches have one size.
    """
    assert job.fresh is not None
    fresh, sizes = Qsl(job.fresh, sut.prepare), evidence.sizes(job, requests)
    rounds = max(1, min(_MOST, fresh.count // sum(sizes)))
    rows = np.arange(rounds * sum(sizes)).reshape(rounds, -1)
    samples = min(fresh.count, rows.size)
    beat.enter("fresh inputs", LOAD_LIMIT_S, 3 * rounds * len(sizes))
    evidence.watch_prepare(sut, lambda: fresh.load(range(samples)))
    known.load(range(min(known.count, rows.size)))
    beat.allow(hang_s)
    enough_ns = _ENOUGH_NS // len(sizes)
    of_sizes = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    found = [_of_size(sut, fresh, known, each, beat, enough_ns) for each in of_sizes]
    return replace(
        max(found, key=attrgetter("slower")),
        prepare_ns=fresh.prepare_ns / samples,
        copy_ns=fresh.copy_ns / samples,
    )


def _of_size(
    sut: Inference, fresh: Qsl, known: Qsl, rows: np.ndarray, beat: Heartbeat, enough_ns: int
) -> Fresh:
    """Compare batches of one size. `rows`: int64 [rounds, size]; `enough_ns`: see `_enough`."""
    times: Times = []
    began, load_before = _clock(), disturbance.read()
    for number, row in enumerate(rows):
        if _enough(times, _clock() - began, enough_ns):
            break
        new, old = (
            each.batch((row % len(each.singles)).tolist(), len(row)) for each in (fresh, known)
        )
        times.append(_round(sut, new, old, beat, met_first=number % 2 == 1))
    first, again, met = _least(times)
    return Fresh(
        size=rows.shape[1],
        rounds=len(times),
        fresh_ns=first,
        again_ns=again,
        met_ns=met,
        slower=slower(times),
        thirds=tuple(thirds(times)),
        other_processors=disturbance.taken(load_before, disturbance.read()),
    )


def longer(answers: Batch, met: Batch) -> float:
    """Return the ratio of the tokens of fresh answers to those of met inputs, in all rows or in the
    longest one, if that is more; at least 1.

    An honest SUT takes at most so many times as long, because its work before the first token is
    the same.
    """
    if "n_tokens" not in answers:
        return 1.0
    new, old = (np.maximum(each["n_tokens"], 1) for each in (answers, met))
    return float(max(1.0, new.sum() / old.sum(), new.max() / old.max()))


def doubtful(fresh: Fresh) -> bool:
    """Return whether fresh inputs took longer, but a disturbed machine may be the reason instead of
    kept answers.
    """
    in_thirds = bool(fresh.thirds) and min(fresh.thirds) > DOUBTFUL
    shown = in_thirds and (fresh.other_processors or 0) < OTHERS
    return fresh.slower > DOUBTFUL and not shown


def slower(times: Times) -> float:
    """How many times as long fresh inputs took."""
    first, again, met = _least(times)
    return first / min(again, met)


def thirds(times: Times) -> list[float]:
    """`slower` of each third of the rounds. Empty if there are too few rounds."""
    if len(times) < ROUNDS:
        return []
    third = len(times) // 3
    # The last two begin with a round that is not used.
    parts = (times[:third], times[third - 1 : 2 * third], times[2 * third - 1 :])
    return [slower(part) for part in parts]


def _enough(times: Times, spent_ns: int, enough_ns: int) -> bool:
    """Return whether the rounds decide, in `enough_ns` or more. If fresh inputs look slower,
    `thirds` needs ROUNDS.
    """
    rounds = len(times)
    if spent_ns >= _LONG_NS and rounds >= ROUNDS:
        return True
    if times and times[0][0] >= evidence.LONG_BATCH_NS:
        return slower(times) <= DOUBTFUL
    return rounds > _LEAST and spent_ns >= enough_ns and slower(times) <= _SUSPICIOUS


def _least(times: Times) -> tuple[float, float, float]:
    first, again, met = (min(column) for column in zip(*(times[1:] or times), strict=True))
    return first, again, met


def _round(
    sut: Inference, new: Batch, old: Batch, beat: Heartbeat, met_first: bool
) -> tuple[float, float, float]:
    """Time a fresh batch, the same batch again, and one that was met, which has the second one's
    time if it is left out.

    Args:
        met_first: whether the batch that was met comes first. It does in every second round,
            because a busy machine interrupts the first call of each round. With the fresh batch
            always first, 13 of 21 honest SUTs beside ten other programs looked as if they kept
            answers, and with this order none of 26.
    """
    met = timed(sut, old, beat) if met_first else None
    first_ns, answers = timed(sut, new, beat)
    again_ns, _ = timed(sut, new, beat)
    if not met and first_ns >= evidence.LONG_BATCH_NS and first_ns <= DOUBTFUL * again_ns:
        return first_ns, again_ns, again_ns
    met_ns, met_answers = met or timed(sut, old, beat)
    return first_ns, again_ns, met_ns * longer(answers, met_answers)
