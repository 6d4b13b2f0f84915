"""result.json: what came of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from formats.cell import MODES, Cell, SweepMark
from formats.fields import choices, matching


class Status(StrEnum):
    """How a cell ended."""

    OK = "ok"
    INVALID = "invalid"
    OOM = "oom"
    UNSUPPORTED = "unsupported"
    ERROR = "error"
    SKIPPED = "skipped"


CAUSES = ("loadgen", "evidence", "precision", "accuracy", "kept answers", "speed", "audit")
"""What makes a result invalid."""
FINAL = (Status.OK, Status.INVALID, Status.UNSUPPORTED)
"""The same command measures anew after these; after the others it goes on with the same attempt."""


@dataclass(frozen=True)
class Metric:
    """LoadGen's one number for the scenario: `samples_per_second` (a mean), or `latency_p90` by
    early stopping or as a plain percentile.
    """

    name: str
    value: float
    unit: str
    higher_is_better: bool
    estimate: str = "mean"


@dataclass(frozen=True, kw_only=True)
class Result:
    """result.json: everything derived from one run directory.

    Attributes:
        started: when the attempt began, in ISO 8601 with its offset; empty where nothing was run.
        versions: of Python, the frameworks, NumPy and LoadGen in the SUT's environment.
        sweep: of which sweep it is a part; None: of none.
        cause: of `invalid`: one of CAUSES.
        loadgen: LoadGen's own verdict, which `quick` reports and does not require.
        metrics: name with unit → value, whatever else the logs tell.
        accuracy: metric, value, threshold, passed, detail; None: not judged, and `warnings` says
            why.
        evidence: one sentence, and what the worker saw after the test.
        seconds: of each phase; `total`, to which they add up; and `until_measuring`.
        peak_host_bytes: of the worker's memory, without what watching a call takes
            (`scenarios.worker.host_memory`).
        peak_device_bytes: of what the framework held on the accelerator; None on a CPU.
        energy: joules of the performance test by source, `absent` (source → reason), and the GPU's
            clocks.
        measured: what the figure rests on: samples, batches, padding_fraction (rows of the batches
            that hold no sample), passes over the data set, and of a model that generates its
            tokens.
        disturbance: what else went on while it was measured
            (`scenarios.worker.disturbance.Disturbance`).
        levels: those the audit grants.
        ranked: whether this figure may stand beside others; `unranked`: if not, why, a sentence
            each.
    """

    cell: Cell
    started: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    sweep: SweepMark | None = None
    mode: str = field(metadata=choices(MODES))
    round: str = field(metadata=matching(r"^v[0-9]+\.[0-9]+$"))
    directory: str
    status: Status
    reason: str = ""
    cause: str | None = field(default=None, metadata=choices(CAUSES))
    loadgen: str | None = None
    metric: Metric | None = None
    metrics: Mapping[str, int | float] = field(default_factory=dict)
    accuracy: Mapping[str, Any] | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, int | float] = field(default_factory=dict)
    peak_host_bytes: int = 0
    peak_device_bytes: int | None = None
    energy: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, int | float] = field(default_factory=dict)
    disturbance: Mapping[str, Any] = field(default_factory=dict)
    levels: tuple[str, ...] = ()
    audit: Mapping[str, int] = field(default_factory=dict)
    ranked: bool = False
    unranked: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A cell of a sweep that cannot be measured here, and why."""

    command: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Document:
    """What `--json` prints of `run` and `sweep`.

    Attributes:
        preface: of a sweep: what all cells have in common, and the machine.
        answer: of a sweep: which SUT is fastest and by how much, a sentence each, the most
            important first.
        refused: of a sweep: cells that cannot be measured here.
    """

    cells: tuple[Result, ...]
    preface: str = ""
    answer: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
