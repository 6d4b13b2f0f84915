"""Takes a SUT's evidence of the timed call itself: the SUT does not choose what is watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scenarios.worker import host_memory
from scenarios.worker.job import Job
from scenarios.worker.qsl import Qsl
from sut.contract import Batch, Evidence, Inference


def take(job: Job, sut: Inference, smallest: int = 1) -> Evidence:
    """Watch `smallest` batches of the smallest shape and one of the largest, if they differ.

    The values are synthetic and the shapes have run in the warm-up.
    """
    synthetic = Qsl(job.synthetic, sut.prepare)
    rows = [0] * smallest + [job.warmup_rows - 1] * (job.warmup_rows > 1)  # the warm-up rows ascend
    synthetic.load(sorted(set(rows)))
    return watch(sut, [synthetic.batch([row], job.workload.batch_size) for row in rows])


def watch(sut: Inference, batches: Sequence[Batch]) -> Evidence:
    """Return the framework's evidence of one call: `predict` and `to_host` of each of these prepared batches.

    The detail "batches" is the number of batches. Raises ValueError unless the SUT made the call exactly once.
    """
    calls = 0

    def call() -> None:
        nonlocal calls
        for batch in batches:
            sut.to_host(sut.predict(batch))
        sut.synchronise()
        calls += 1

    with host_memory.watching():
        evidence = sut.evidence(call)
    if calls != 1:
        raise ValueError(
            f"the SUT's evidence made the call that it was given {calls} times; it makes it once, under the framework's profiler"
        )
    return replace(evidence, detail={**evidence.detail, "batches": len(batches)})
