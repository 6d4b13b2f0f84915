"""Runs every shape on a loaded SUT before anything is timed, and measures the time of a batch."""

from __future__ import annotations

from itertools import product
from time import perf_counter_ns as _clock
from typing import Any

from formats.job import LOADGEN, Job
from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat
from scenarios.worker.queries import length_buckets
from scenarios.worker.queries.answers import TOKENS, check_rows, describe
from scenarios.worker.queries.qsl import Qsl
from sut.contract import Batch, Inference
from sut.devices import DEVICES


def warm_up(
    job: Job, sut: Inference, beat: Heartbeat
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run every shape on the SUT, with synthetic values. The first run compiles, and the second
    gives the time of a batch (`_runs_once` says which shapes have no second run).

    Returns (the times of each shape, the dtypes and shapes of the answers). A shape without a
    second run has no `second_ns`, unless the job knows that time.
    """
    synthetic = Qsl(job.synthetic, sut.prepare)
    synthetic.load(range(synthetic.count))
    times: list[dict[str, Any]] = []
    sizes = job.batch_sizes or (job.workload.batch_size,)
    widths = job.length_buckets or (0,)
    once = _runs_once(job)
    batches = job.warmup_rows * len(sizes) * len(widths)
    beat.enter("warm-up", LOAD_LIMIT_S, batches if once else 2 * batches)
    # The largest size comes last, so that its answers are described.
    for size, row, width in product(sizes, range(job.warmup_rows), widths):
        batch = synthetic.batch([row], size)
        if width:
            batch = length_buckets.cut(batch, width, widths)
        shape: dict[str, Any] = {"row": row, "size": size}
        shape["first_ns"], answers = timed(sut, batch, beat)
        check_rows(answers, job.answer, size)
        if not once:
            shape["second_ns"], answers = timed(sut, batch, beat)
        elif job.known:
            shape["second_ns"] = job.known.second_ns[len(times)]
        times.append(shape)
    return times, describe(answers, job.answer)


def _runs_once(job: Job) -> bool:
    """Return whether each shape runs once. On a CPU it does if the job knows the time of a batch,
    or if the answers are generated. These are many forward passes, all programs are compiled in the
    first one, and the calibration times them.

    A GPU records CUDA graphs in the second run. Server has shapes that are not calibrated, a
    replica that hangs is known by its warm batches, and other procedures have no calibration.
    """
    if DEVICES[job.workload.device].accelerator:
        return False
    calibrates = job.procedure == LOADGEN and not job.serves and not job.places
    return bool(job.known) or (calibrates and job.answer == TOKENS)


def timed(sut: Inference, batch: Batch, beat: Heartbeat) -> tuple[int, Batch]:
    """(nanoseconds of a batch, its answers). One more batch is completed."""
    start = _clock()
    answers = sut.to_host(sut.predict(batch))
    beat.bump()
    return _clock() - start, answers
