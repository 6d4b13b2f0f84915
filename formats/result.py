"""result.json: what came of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from formats.cell import Cell, SweepMark


class Status(StrEnum):
    """How a cell ended."""

    OK = "ok"
    INVALID = "invalid"
    OOM = "oom"
    UNSUPPORTED = "unsupported"
    ERROR = "error"
    SKIPPED = "skipped"


FINAL = (Status.OK, Status.INVALID, Status.UNSUPPORTED)
"""The same command measures anew after these; after the others it goes on with the same attempt."""


@dataclass(frozen=True)
class Metric:
    """LoadGen's one number for the scenario: `samples_per_second` (a mean), or `latency_p90` by early stopping or as a plain percentile."""

    name: str
    value: float
    unit: str
    higher_is_better: bool
    estimate: str = "mean"


@dataclass(frozen=True, kw_only=True)
class Result:
    """Everything derived from one run directory; compliance/schemas/result.json describes it.

    Attributes:
        started: when the attempt began, in ISO 8601 with its offset; empty where nothing was run.
        versions: of Python, the frameworks, NumPy and LoadGen in the SUT's environment.
        sweep: of which sweep it is a part; None: of none.
        cause: of `invalid`: `loadgen`, `evidence`, `precision`, `accuracy`, `kept answers`, `speed` or `audit`.
        loadgen: LoadGen's own verdict, which `quick` reports and does not require.
        metrics: name with unit → value, whatever else the logs tell.
        accuracy: metric, value, threshold, passed, detail; None: not judged, and `warnings` says why.
        evidence: one sentence, and what the worker saw after the test.
        seconds: of each phase; `total`, to which they add up; and `until_measuring`.
        peak_host_bytes: of the worker's memory, without what watching a call takes (`scenarios.worker.host_memory`).
        peak_device_bytes: of what the framework held on the accelerator; None on a CPU.
        energy: joules of the performance test by source, `absent` (source → reason), and the GPU's clocks.
        measured: what the figure rests on: samples, batches, padding_fraction (rows of the batches that hold no sample), passes over the
            data set, and of a model that generates its tokens.
        disturbance: what else went on while it was measured (`scenarios.worker.disturbance.Disturbance`).
        levels: those the audit grants.
        ranked: whether this figure may stand beside others; `unranked`: if not, why, a sentence each.
    """

    cell: Cell
    started: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    sweep: SweepMark | None = None
    mode: str
    round: str
    directory: str
    status: Status
    reason: str = ""
    cause: str | None = None
    loadgen: str | None = None
    metric: Metric | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    accuracy: Mapping[str, Any] | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    peak_host_bytes: int = 0
    peak_device_bytes: int | None = None
    energy: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)
    disturbance: Mapping[str, Any] = field(default_factory=dict)
    levels: tuple[str, ...] = ()
    audit: Mapping[str, int] = field(default_factory=dict)
    ranked: bool = False
    unranked: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, document: Any) -> Result:
        """A result as result.json holds it, of this version or an older one. Raises ValueError with one sentence for anything else."""
        try:
            values = dict(document)
            values |= {"cell": Cell(**values["cell"]), "status": Status(values["status"])}
            values["metric"] = values.get("metric") and Metric(**values["metric"])
            values["sweep"] = values.get("sweep") and SweepMark(**values["sweep"])
            return cls(**values | {name: tuple(values.get(name, ())) for name in ("levels", "unranked", "warnings")})
        except (KeyError, TypeError, ValueError) as e:
            raise ValueError(f"it is no result of this version of the harness: {e}") from None
