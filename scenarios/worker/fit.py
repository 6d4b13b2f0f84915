"""The timer of training steps. It trains a SUT's model batch by batch, and records when each step
ended, or its loss. LoadGen is not used here.

The first two steps are not timed: one builds and compiles, and in the next PyTorch records CUDA
graphs. A timed run waits for the device after each of these two steps, and after the last step. So
the window from the end of the second step to the end of the last contains all work. Within it the
framework may run ahead of its device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns as _clock
from typing import Any

import numpy as np

from formats.job import PERFORMANCE, REFERENCE, Job
from formats.outcome import Fields
from formats.writing import write_json
from scenarios.table import UNTIMED_STEPS
from scenarios.worker.heartbeat import LOAD_LIMIT_S, Heartbeat, hang_limit_s
from scenarios.worker.queries.qsl import Qsl
from scenarios.worker.system import counters, disturbance
from scenarios.worker.watching import evidence
from sut.contract import Batch, Evidence, Training
from sut.evidence import compilations

_WRITTEN = (
    "began_ns",
    "began_unix_ns",
    "first_ended_ns",
    "started_ns",
    "marks_ns",
    "closed_ns",
    "returned_ns",
    "queued_ns",
    "input_ns",
    "losses",
)
"""The attributes of a timer in steps.json."""
_LAST_STEP = 3.0  # times the mean: a longer last step surely waited for those before it


def train(job: Job, sut: Training, beat: Heartbeat, slowest_ns: float) -> Fields:
    """Train one step on each batch of the inputs, in their order. Then compute the losses of the
    held-out batches, with frozen parameters.

    Writes steps.json, and for a reference also its losses and updates as reference.npz.
    """
    assert job.fresh, "a training has batches that are held out"
    is_timed = job.test == PERFORMANCE
    batches, held_out = (_batches(path, job, sut) for path in (job.inputs, job.fresh))
    timer = Timer(job, beat, len(batches), sut.synchronise)
    initial: list[np.ndarray] = []
    if not is_timed:
        initial = [np.array(each, np.float32) for each in sut.parameters()]
    beat.enter("warm-up", LOAD_LIMIT_S, 1)
    hits = compilations.hits()
    timer.began_unix_ns, timer.began_ns = time.time_ns(), _clock()
    sut.fit(timer.hand_over(batches), len(batches), timer.on_step)
    if timer.steps != len(batches):
        raise ValueError(f"the SUT made {timer.steps} steps of {len(batches)} batches")
    timer.end()
    updates = () if is_timed else _updates(initial, sut.parameters())
    noise = sut.noise() if hasattr(sut, "noise") else [False] * len(updates)
    hits = compilations.hits() - hits
    beat.enter("evaluation", LOAD_LIMIT_S)
    evaluation = _evaluate(sut, held_out)
    write_json(
        job.log_dir / "steps.json", timer.as_json(sut.trainable) | evaluation | {"updates": updates}
    )
    if job.test == REFERENCE:
        more = {"noise": np.array(noise)}
        if hasattr(sut, "rounded"):
            more["rounded"] = np.array(sut.rounded)
        with (job.log_dir / "reference.npz").open("wb") as f:
            np.savez(
                f,
                allow_pickle=False,
                loss=np.array(timer.losses),
                held_out=np.array(evaluation["held_out"]),
                updates=np.array(updates),
                **more,
            )
    beat.enter("done", LOAD_LIMIT_S)
    before, after = (watch(sut, batches[:count]) for count in (1, 2))
    mean_ns = (timer.closed_ns - timer.started_ns) / len(timer.marks_ns)
    return {
        "warmup": [
            {"row": 0, "first_ns": timer.first_ended_ns - timer.began_ns, "second_ns": mean_ns}
        ],
        "cache_hits": hits,
        "test_start_ns": timer.monotonic_ns,
        "test_ns": timer.closed_ns - timer.started_ns,
        "evidence_before": before,
        "evidence_after": after,
        **timer.surroundings(),
    }


def _updates(initial: Sequence[np.ndarray], trained: Iterable[np.ndarray]) -> list[list[float]]:
    """What the training did to each parameter; see `compliance.scoring.weight_updates`. The numbers
    are the same in any layout, so each library may transpose its weights.
    """
    rows = []
    for before, after in zip(initial, trained, strict=True):
        old = before.ravel().astype(np.float64)
        update = np.asarray(after, np.float64).ravel() - old
        lengths = np.sqrt([old @ old, update @ update])
        rows.append([old.size, old.sum(), *lengths, update.sum(), update @ old])
    return [list(map(float, row)) for row in rows]


def _batches(path: Path, job: Job, sut: Training) -> list[Batch]:
    """The whole batches of a file. Each is prepared separately, because pictures are large and
    preparing needs four copies.
    """
    qsl = Qsl(path, sut.prepare)
    size = job.workload.batch_size
    batches = []
    for start in range(0, qsl.count, size):
        rows = range(start, min(start + size, qsl.count))
        qsl.load(rows)
        batches.append(qsl.batch(rows, size))
    return batches


def _evaluate(sut: Training, batches: Sequence[Batch]) -> dict[str, Any]:
    """The loss of each batch. The step of the training computes it without changing any parameter,
    so nothing is compiled.
    """
    losses: list[float] = []
    sut.freeze()
    start_ns = _clock()
    sut.fit(iter(batches), len(batches), lambda loss: losses.append(loss()))
    sut.synchronise()
    return {"held_out": losses, "evaluation_started_ns": start_ns, "evaluation_ended_ns": _clock()}


@dataclass
class Timer:
    """Records the times of steps. The framework calls `on_step` after each step. Times are
    `perf_counter_ns`.

    Attributes:
        expected: how many steps there will be.
        synchronise: waits for the device.
        began_ns, began_unix_ns: when the first step began; the second one in nanoseconds since
            1970.
        first_ended_ns: when the first step ended, after waiting for the device.
        started_ns, closed_ns: the window, from the end of the last untimed step to that of the last
            step, each after waiting for the device.
        marks_ns: when the framework reported the end of each step in the window; its device may be
            behind.
        input_ns: the time to hand over the batches, which are ready in memory. The framework's work
            on a batch is a part of its step.
        returned_ns: when the framework's loop had returned and its device had finished.
        queued_ns: how long, from `closed_ns` to `returned_ns`, the loop's thread was ready to run
            and had no processor.
        losses: for a timed run, the loss of the first step and the mean of the others; else the
            loss of each step.
    """

    job: Job
    beat: Heartbeat
    expected: int
    synchronise: Callable[[], None]
    steps: int = 0
    began_ns: int = 0
    began_unix_ns: int = 0
    first_ended_ns: int = 0
    started_ns: int = 0
    closed_ns: int = 0
    returned_ns: int = 0
    input_ns: int = 0
    queued_ns: int = 0
    monotonic_ns: int = 0
    marks_ns: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def hand_over(self, batches: Sequence[Batch]) -> Iterator[Batch]:
        """Yield the batches one by one. They are ready, and `input_ns` is the time to hand them
        over.
        """
        for number in range(len(batches)):
            asked_ns = _clock()
            batch = batches[number]
            self.input_ns += _clock() - asked_ns
            yield batch

    def on_step(self, loss: Callable[[], float]) -> None:
        """Record the end of a step. The framework calls this."""
        self.steps += 1
        if self.steps > UNTIMED_STEPS:
            self.marks_ns.append(_clock())
            self.beat.bump()
        expected = self.expected
        if self.steps == expected:  # a framework that ran ahead has all steps before it now
            self.beat.allow(hang_limit_s((self.first_ended_ns - self.began_ns) * expected))
        if self.steps in (1, expected) or self.job.test != PERFORMANCE:
            self.losses.append(loss())
        if self.steps in (1, UNTIMED_STEPS, expected):
            self.synchronise()
        if self.steps == 1:
            self.first_ended_ns = _clock()
            limit_s = hang_limit_s(self.first_ended_ns - self.began_ns)
            self.beat.enter("test", limit_s, expected - UNTIMED_STEPS)
        if self.steps == UNTIMED_STEPS:
            self._before = counters.read(self.job.workload.device), disturbance.read()
            self.monotonic_ns, self.started_ns = time.monotonic_ns(), _clock()
        if self.steps == expected:
            self._queued_at_close_ns, self.closed_ns = _queued_ns(), _clock()
            self._after = counters.read(self.job.workload.device), disturbance.read()

    def end(self) -> None:
        """Record that the framework's loop has returned."""
        self.synchronise()
        self.returned_ns = _clock()
        # A pause between the two clock readings counts as queueing, but is not in the other time.
        self.queued_ns = min(
            _queued_ns() - self._queued_at_close_ns, self.returned_ns - self.closed_ns
        )

    def surroundings(self) -> Fields:
        """The energy and the disturbances of the window."""
        (energy_before, load_before), (energy_after, load_after) = self._before, self._after
        gaps_ns = np.diff([self.started_ns, *self.marks_ns[:-1], self.closed_ns])
        seconds = (self.closed_ns - self.started_ns) / 1e9
        # The framework ran ahead of its device, so these are not the times of steps.
        if gaps_ns[-1] > _LAST_STEP * gaps_ns.mean():
            gaps_ns = gaps_ns[:0]
        usual_ns = float(np.median(gaps_ns)) if len(gaps_ns) else 0.0
        disturbances = disturbance.between(load_before, load_after, seconds, gaps_ns, usual_ns)
        return {
            "energy": counters.between(energy_before, energy_after),
            "disturbance": disturbances,
        }

    def as_json(self, trainable: int) -> dict[str, Any]:
        """Return the content of steps.json. `trainable` is the number of parameters that the
        optimizer changes.
        """
        return {
            "schema": "steps-4",
            "batch_size": self.job.workload.batch_size,
            "trainable": trainable,
            **{name: getattr(self, name) for name in _WRITTEN},
        }


def _queued_ns() -> int:
    """Return for how many nanoseconds this thread has been ready to run without a processor. 0 if
    the system does not report it.

    It is the second field of schedstat (Documentation/scheduler/sched-stats.rst of Linux).
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def watch(sut: Training, batches: Sequence[Batch]) -> Evidence:
    """Return the framework's evidence of one call of `fit` on these batches.

    The detail "batches" is the number of batches. Raises ValueError unless the SUT made the call
    exactly once.
    """

    def work() -> None:
        sut.fit(iter(batches), len(batches), lambda loss: None)
        sut.synchronise()

    return evidence.of_call(sut, work, len(batches))
