"""record.json: what a reader a year from now would ask about a run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from formats.cell import Cell, SweepMark
from formats.outcome import WorkerOutcome


@dataclass(frozen=True, kw_only=True)
class Record:
    """One field for each key of the file.

    Attributes:
        qsl: how many inputs there are, how long they are, and whose.
        accuracy: the score, the keys of the answers, the tolerance; `reason` where there is no reference.
        digests: BLAKE3 of the weights; sha256 of inputs, reference and, once it is written, LoadGen's trace.
        inputs, answers: name of an array → `dtype`, and `shape` without the axis of samples (None: as long as each sample's own).
            Answers are told by the worker.
        framework: the one that computes, in words, whose evidence holds counters of its own; empty: the SUT runs on none.
        parameters: of the checkpoint; tied ones count once.
        training: how many `parameters` are trained, of the model's or of LoRA's beside them; what the names of the model's own begin with
            if only a `part` of it is trained, else empty; the `seed` of synthetic inputs, else None; the
            `benchmark` and the `ruleset` of MLPerf Training whose keys its log has. None: nothing is trained.
        least_flops: floating-point operations of a sample, on average and at least; None: not known, or it ends where its answer does.
        environment: name, interpreter, lock, variables and, once a worker told them, versions.
        command_seconds: of the command that measured it: of the worker of each test, under the test's name, of `audit` (the tree is
            written and audited), and the `total`.
        sweep: the measurement of a sweep that it is; None: it was measured by itself.
        notes: defaults that were chosen, and what else a reader of the result should know.
    """

    cell: Cell
    mode: str
    round: str
    command: str
    submitter: str
    benchmark: Mapping[str, str]
    family: str
    execution: str
    framework: str
    loadgen: str
    qsl: Mapping[str, Any]
    accuracy: Mapping[str, Any]
    digests: Mapping[str, Any]
    inputs: Mapping[str, Any]
    answers: Mapping[str, Any]
    new_tokens_per_sample: float | None
    end_tokens: tuple[int, ...]
    parameters: int
    training: Mapping[str, Any] | None
    least_flops: float | None
    machine: Mapping[str, Any]
    git: Mapping[str, Any]
    environment: Mapping[str, Any]
    notes: tuple[str, ...]
    setup_seconds: Mapping[str, float]
    started_monotonic_ns: int
    working_directory: str
    process_id: int
    started: str
    sweep: SweepMark | None
    command_seconds: Mapping[str, float] = field(default_factory=dict)
    schema: str = "record-2"

    def after(self, test: str, seconds: float, outcome: WorkerOutcome, trace: str | None) -> Record:
        """The record with what a test told: its environment's versions, its answers and, if not None, the digest of its trace."""
        seconds_so_far = {**self.command_seconds, test: round(seconds, 3)}
        digests = self.digests if trace is None else {**self.digests, "trace": trace}
        environment = {**self.environment, "versions": dict(outcome.versions)}
        return replace(self, environment=environment, answers=outcome.answers, digests=digests, command_seconds=seconds_so_far)

    def ended(self, audit_seconds: float) -> Record:
        """The record with the seconds that the command took until now."""
        total = (time.monotonic_ns() - self.started_monotonic_ns) / 1e9
        return replace(self, command_seconds={**self.command_seconds, "audit": round(audit_seconds, 3), "total": round(total, 3)})
