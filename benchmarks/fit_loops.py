"""Runs in a SUT's environment, for benchmarks/fit_overhead.py: trains in the harness and by the framework's bare loop, in turns.

`python -m benchmarks.fit_loops JOB.json ROUNDS` writes times.npz beside the job: what each call took, in nanoseconds, from its beginning
until the device was done, as `harness` and `bare`, int64 [ROUNDS].
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scenarios.worker import fit
from scenarios.worker import job as jobs
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.qsl import Qsl
from sut.contract import Batch
from sut.registry import SUTS, load_module

Loop = Callable[[Sequence[Batch]], None]


def keras_loop(sut: Any) -> Loop:
    """`fit` of Keras 3, without a callback."""
    import keras

    from sut.keras3.training import data

    def loop(batches: Sequence[Batch]) -> None:
        pairs = (({name: values for name, values in batch.items() if name != "label"}, batch["label"]) for batch in batches)
        keras.Model.fit(sut.model, data(pairs), steps_per_epoch=len(batches), epochs=1, verbose=0)

    return loop


def trainer_loop(sut: Any) -> Loop:
    """Transformers' `Trainer` with the SUT's arguments, without its callback."""
    import torch
    import transformers

    from sut.native_torch.trainer import arguments

    class Trainer(transformers.Trainer):
        batches: Sequence[Batch]

        def get_train_dataloader(self) -> Any:
            return ({name: torch.from_numpy(values) for name, values in batch.items()} for batch in self.batches)

    bare = Trainer(sut.model, arguments(sut.workload))
    bare.remove_callback(transformers.PrinterCallback)

    def loop(batches: Sequence[Batch]) -> None:
        bare.batches, bare.args.max_steps = batches, len(batches)
        bare.train()

    return loop


def main(path: Path, rounds: int) -> None:
    """Take turns: one round that builds and compiles, and those that count."""
    job = jobs.read_job(path)
    sut = load_module(job.sut, job.family, job.workload.task).load(job.workload)
    qsl, beat = Qsl(job.inputs, sut.prepare), Heartbeat(path.parent / "heartbeat")
    qsl.load(range(qsl.count))
    batches = qsl.batches(job.workload.batch_size)

    def harness(batches: Sequence[Batch]) -> None:
        timer = fit.Timer(job, beat, len(batches), sut.synchronise)
        sut.fit(timer.hand_over(batches), len(batches), timer.on_step)

    loops = {"harness": harness, "bare": (keras_loop if SUTS[job.sut].backend else trainer_loop)(sut)}
    times: dict[str, list[int]] = {name: [] for name in loops}
    for turn in range(1 + rounds):
        for name in sorted(loops, reverse=turn % 2 == 0):
            start = time.perf_counter_ns()
            loops[name](batches)
            sut.synchronise()
            times[name].append(time.perf_counter_ns() - start)
    np.savez(path.parent / "times.npz", allow_pickle=False, **{name: np.array(each[1:]) for name, each in times.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
