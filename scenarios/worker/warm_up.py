"""Shows a loaded SUT every shape before anything is timed, and tells the time of a batch."""

from __future__ import annotations

import time
from typing import Any

from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat
from scenarios.worker.job import Job
from scenarios.worker.qsl import Qsl
from sut.contract import Batch, Inference

_clock = time.perf_counter_ns


def warm_up(job: Job, sut: Inference, beat: Heartbeat) -> list[dict[str, Any]]:
    """Show the SUT every shape twice, with synthetic values: the first time compiles, the second tells the time of a batch."""
    synthetic = Qsl(job.synthetic, sut.prepare)
    synthetic.load(range(synthetic.count))
    times = []
    beat.enter("warm-up", LOAD_LIMIT_S, 2 * job.warmup_rows)
    for row in range(job.warmup_rows):
        first_ns, second_ns = (_timed(sut, synthetic.batch([row], job.workload.batch_size), beat) for _ in range(2))
        times.append({"row": row, "first_ns": first_ns, "second_ns": second_ns})
    return times


def _timed(sut: Inference, batch: Batch, beat: Heartbeat) -> int:
    start = _clock()
    sut.to_host(sut.predict(batch))
    beat.bump(1)
    return _clock() - start
