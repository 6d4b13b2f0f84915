"""Computes the figures of one training from its steps.json. The harness and the audit both use this
module.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from compliance.logs import files
from formats import reading

Count = Annotated[int, Meta(ge=0, lt=1 << 62)]
"""A time or a count, with which an int64 can be computed."""
_CONFIDENCE = 0.95
# Marks are the times of steps if the last step is at most this many mean steps long. The last step
# includes the wait for the device. So if a framework runs ahead, even by half a step, its last step
# is longer.
_LAST_STEP = 1.5
# The steps before the window. The first builds and compiles, and in the next PyTorch records CUDA
# graphs.
_UNTIMED = 2


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The times and losses that the worker recorded for one training. Times are nanoseconds of one
    clock, except `began_unix_ns`.

    Attributes:
        trainable: how many parameters were trained.
        began_ns, began_unix_ns: before the first step; the second one in nanoseconds since 1970.
        first_ended_ns: the end of the first step, after waiting for the device.
        started_ns, closed_ns: the window, from the end of the second step to that of the last step,
            each after waiting for the device.
        marks_ns: when the framework reported the end of each step in the window.
        returned_ns: when the framework's loop had returned and the device had finished.
        queued_ns: how long, from `closed_ns` to `returned_ns`, the loop was ready to run but other
            programs had the processors.
        input_ns: the time to hand over the batches, which are ready in memory. The framework's work
            on a batch is a part of its step.
        losses: for a timed run, the loss of the first step and the mean of the others; else the
            loss of each step.
        held_out: after the training, the loss of each batch that it did not train on.
        evaluation_started_ns, evaluation_ended_ns: the times before and after the losses in
            `held_out` were computed.
        updates: what the training did to each parameter (`scoring.weight_updates`); a timed run has
            none.
    """

    batch_size: Count
    trainable: Count
    began_ns: Count
    began_unix_ns: Count
    first_ended_ns: Count
    started_ns: Count
    marks_ns: tuple[Count, ...]
    closed_ns: Count
    returned_ns: Count
    queued_ns: Count
    input_ns: Count
    losses: tuple[float, ...]
    held_out: tuple[float, ...]
    evaluation_started_ns: Count
    evaluation_ended_ns: Count
    updates: tuple[tuple[float, ...], ...] = ()

    @property
    def count(self) -> int:
        """The number of steps in the window."""
        return len(self.marks_ns)

    @property
    def total(self) -> int:
        """The number of all steps: those in the window and those before."""
        return _UNTIMED + self.count

    @property
    def window_ns(self) -> int:
        """The length of the window."""
        return self.closed_ns - self.started_ns

    @property
    def times_ns(self) -> np.ndarray:
        """The time of each step in the window, int64 [count]. The last one includes the wait for
        the device, so that they add up to the window.
        """
        return np.diff([self.started_ns, *self.marks_ns[:-1], self.closed_ns])

    @property
    def seen(self) -> bool:
        """Whether `times_ns` are the times of single steps. They are not if the last one is long,
        because then the framework ran ahead of its device.
        """
        return bool(self.times_ns[-1] <= _LAST_STEP * self.window_ns / self.count)


def read(path: Path) -> Steps:
    """The content of steps.json. Raises ValueError, or another error of damaged content
    (`files.DAMAGE`).
    """
    document = files.json_object(path)
    if document.get("schema") != "steps-4":
        raise ValueError("its schema is not steps-4")
    steps = reading.convert(document, Steps)
    if steps.count < 2 or steps.window_ns <= 0:
        raise ValueError("its window has fewer than two steps, or no length")
    return steps


def figures(steps: Steps) -> dict[str, float]:
    """Name with unit → value. Figures of single steps are included only if `steps.seen`."""
    times_ms = steps.times_ns / 1e6
    mean_ms = steps.window_ns / 1e6 / steps.count
    values = {
        "ms_per_step": mean_ms,
        "samples_per_second": 1e3 * steps.batch_size / mean_ms,
        "first_step_seconds": (steps.first_ended_ns - steps.began_ns) / 1e9,
        "input_seconds": steps.input_ns / 1e9,
        "trained_parameters": steps.trainable,
    }
    if not steps.seen:
        return values
    from scipy import special  # it takes a third of a second to import

    quantile = special.stdtrit(steps.count - 1, (1 + _CONFIDENCE) / 2)
    half = float(quantile * times_ms.std(ddof=1) / np.sqrt(steps.count))
    third = max(1, steps.count // 3)
    return values | {
        "step_median_ms": float(np.median(times_ms)),
        "step_p90_ms": float(np.percentile(times_ms, 90)),
        "step_mean_low_ms": max(0.0, mean_ms - half),
        "step_mean_high_ms": mean_ms + half,
        "drift_fraction": float(times_ms[-third:].mean() / times_ms[:third].mean()) - 1,
    }
