"""Trains in the harness and by the framework's bare loop, in turns. studies/fit_overhead.py runs it
in a SUT's environment.

`python -m studies.fit_loops JOB.json ROUNDS` writes times.npz next to the job. `harness` and `bare`
are the nanoseconds of a step in each call, float64 [ROUNDS]. The time runs from the loop's request
for its fifth batch until the device is done, so the work at the beginning of both loops is left
out. `own` is the time of a step that is spent in the harness' code, int64. It has one value for
each step of all rounds, except the first steps and the last step of each round.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from formats.job import Job, read_job
from scenarios.worker import fit
from scenarios.worker.heartbeat import Heartbeat
from scenarios.worker.qsl import Qsl
from sut.contract import Batch
from sut.registry import SUTS, loader

UNTIMED = 4
"""Batches of each call before the time is measured."""

Loop = Callable[[Sequence[Batch]], None]


class Clock:
    """Yields batches, and records the time at which the first timed batch is requested."""

    start_ns = 0

    def hand_over(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches one by one."""
        for number, batch in enumerate(batches):
            if number == UNTIMED:
                self.start_ns = time.perf_counter_ns()
            yield batch


def harness_loop(sut: Any, clock: Clock, job: Job, own_ns: list[int]) -> Loop:
    """Return the SUT's `fit` with the harness' timer, as in a timed run. The nanoseconds of each
    step in that timer are added to `own_ns`.

    The first and the last step are left out: there the timer waits for the device, as the bare loop
    does at its end.
    """
    beat = Heartbeat(job.log_dir / "heartbeat")

    def loop(batches: Sequence[Batch]) -> None:
        timer = fit.Timer(job, beat, len(batches), sut.synchronise)

        def on_step(loss: Callable[[], float]) -> None:
            start_ns = time.perf_counter_ns()
            timer.on_step(loss)
            spent_ns = time.perf_counter_ns() - start_ns
            if UNTIMED < timer.steps < len(batches):
                own_ns.append(spent_ns + timer.input_ns // timer.steps)

        sut.fit(clock.hand_over(timer.hand_over(batches)), len(batches), on_step)

    return loop


def keras_loop(sut: Any, clock: Clock) -> Loop:
    """Return `fit` of Keras 3, without a callback."""
    import keras

    from sut.keras3.training import data

    def loop(batches: Sequence[Batch]) -> None:
        pairs = (_pair(batch) for batch in clock.hand_over(batches))
        keras.Model.fit(sut.model, data(pairs), steps_per_epoch=len(batches), epochs=1, verbose=0)

    return loop


def _pair(batch: Batch) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return a batch as Keras' `fit` takes it: (inputs by name, labels)."""
    inputs = dict(batch)
    label = inputs.pop("label")
    return inputs, label


def trainer_loop(sut: Any, clock: Clock) -> Loop:
    """Return Transformers' `Trainer` with the SUT's arguments, without its callback."""
    import torch
    import transformers

    from sut.native_torch.trainer import arguments

    class Trainer(transformers.Trainer):
        batches: Sequence[Batch]

        def get_train_dataloader(self) -> Any:
            handed_over = clock.hand_over(self.batches)
            return (
                {name: torch.from_numpy(values) for name, values in batch.items()}
                for batch in handed_over
            )

    bare = Trainer(sut.model, arguments(sut.workload))
    bare.remove_callback(transformers.PrinterCallback)

    def loop(batches: Sequence[Batch]) -> None:
        bare.batches = batches
        bare.args.max_steps = len(batches)
        bare.train()

    return loop


def main(path: Path, rounds: int) -> None:
    """Run the loops in turns: first one round that builds and compiles, then the timed rounds."""
    job = read_job(path)
    clock = Clock()
    sut = loader(job.sut, job.architecture, job.workload.task)(job.workload)
    qsl = Qsl(job.inputs, sut.prepare)
    batches = list(qsl.in_turn(job.workload.batch_size))
    bare = keras_loop if SUTS[job.sut].backend else trainer_loop
    own_ns: list[int] = []
    loops = {"harness": harness_loop(sut, clock, job, own_ns), "bare": bare(sut, clock)}
    times: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(1 + rounds):
        for name in sorted(loops, reverse=turn % 2 == 0):
            loops[name](batches)
            sut.synchronise()
            spent_ns = time.perf_counter_ns() - clock.start_ns
            times[name].append(spent_ns / (len(batches) - UNTIMED))
    timed = {name: np.array(each[1:]) for name, each in times.items()}
    np.savez(path.parent / "times.npz", allow_pickle=False, own=np.array(own_ns), **timed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
