"""The content of a training's run directory. Nothing is judged here."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from compliance.logs import files
from compliance.training import steps as step_files
from compliance.training.steps import Steps
from formats.job import Job
from formats.outcome import WorkerOutcome
from formats.record import Record

TESTS = ("performance", "accuracy")


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """The content of a training's run directory. A part is None if it is not there, or if `faults`
    says why it could not be read.

    Attributes:
        steps, jobs, outcomes: those of each test, by its name.
        reference: the reference's losses, float64: `loss` of each step, and `held_out` of each
            held-out batch; the `updates` of its parameters, and
            `noise`, whether an update is only rounding.
        faults: file → why it could not be read.
    """

    directory: Path
    record: Record | None
    steps: dict[str, Steps | None]
    jobs: dict[str, Job | None]
    outcomes: dict[str, WorkerOutcome | None]
    reference: dict[str, np.ndarray] | None
    faults: dict[str, str]


@cache
def limits() -> Mapping[str, Any]:
    """The content of limits.toml."""
    return tomllib.loads(Path(__file__).with_name("limits.toml").read_text(encoding="utf-8"))


def passes(lora: Any) -> float:
    """Return how many times the operations of a forward pass a training step takes. `lora` is the
    cell's mode of LoRA; None: all parameters are trained.
    """
    return float(limits()["passes_of_lora" if lora else "passes"])


def is_training(directory: Path) -> bool:
    """Whether a run directory has the step times of both tests of a training."""
    return all((directory / "raw" / test / "steps.json").is_file() for test in TESTS)


def read(directory: Path) -> TrainingRun:
    """Reads a run directory. A file that cannot be read is noted in `faults` and raises nothing."""
    faults: dict[str, str] = {}

    def take(reader: Callable[[Path], Any], name: str) -> Any:
        value, fault = files.attempt(reader, directory / name)
        if fault:
            faults[name] = fault
        return value

    record = take(files.record, "record.json")
    reference = None if record and record.accuracy.reason else take(_losses, "reference.npz")
    return TrainingRun(
        directory=directory,
        record=record,
        steps={test: take(step_files.read, f"raw/{test}/steps.json") for test in TESTS},
        jobs={test: take(files.job, f"raw/{test}/job.json") for test in TESTS},
        outcomes={test: take(files.outcome, f"raw/{test}/outcome.json") for test in TESTS},
        reference=reference,
        faults=faults,
    )


def _losses(path: Path) -> dict[str, np.ndarray]:
    arrays = files.arrays(path)
    dimensions = {"loss": 1, "held_out": 1, "updates": 2}
    for name, count in dimensions.items():
        array = arrays[name]
        if array.ndim != count or array.dtype.kind != "f" or not array.size:
            raise ValueError("its losses or updates are not rows of numbers")
    if arrays["noise"].shape != arrays["updates"].shape[:1] or arrays["noise"].dtype != bool:
        raise ValueError("its noise is not a row of truth values, one for each parameter")
    return {name: arrays[name] for name in (*dimensions, "noise")}
