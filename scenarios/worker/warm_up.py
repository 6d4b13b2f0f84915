"""Runs every shape on a loaded SUT before anything is timed, and measures the time of a batch."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

from formats.job import Job
from scenarios.worker import length_buckets
from scenarios.worker.answers import describe
from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat
from scenarios.worker.qsl import Qsl
from sut.contract import Batch, Inference
from sut.devices import DEVICES

_clock = time.perf_counter_ns


def warm_up(
    job: Job, sut: Inference, beat: Heartbeat
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run every shape on the SUT twice, with synthetic values. The first run compiles, and the
    second gives the time of a batch. If the job knows that time, a CPU runs it once. A GPU records
    CUDA graphs in the second run.

    Returns (the times of each shape, the dtypes and shapes of the answers).
    """
    synthetic = Qsl(job.synthetic, sut.prepare)
    synthetic.load(range(synthetic.count))
    times: list[dict[str, Any]] = []
    sizes = job.batch_sizes or (job.workload.batch_size,)
    widths = job.length_buckets or (0,)
    beat.enter("warm-up", LOAD_LIMIT_S, 2 * job.warmup_rows * len(sizes) * len(widths))
    # The largest size comes last, so that its answers are described.
    for size, row, width in product(sizes, range(job.warmup_rows), widths):
        batch = synthetic.batch([row], size)
        if width:
            batch = length_buckets.cut(batch, width, widths)
        first_ns, answers = _timed(sut, batch, beat)
        if job.known and not DEVICES[job.workload.device].accelerator:
            second_ns = job.known.second_ns[len(times)]
        else:
            second_ns, answers = _timed(sut, batch, beat)
        times.append({"row": row, "size": size, "first_ns": first_ns, "second_ns": second_ns})
    return times, describe(answers, job.answer)


def _timed(sut: Inference, batch: Batch, beat: Heartbeat) -> tuple[int, Batch]:
    start = _clock()
    answers = sut.to_host(sut.predict(batch))
    beat.bump(1)
    return _clock() - start, answers
