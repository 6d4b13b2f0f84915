"""result.json: the result of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from formats.cell import MODES, Cell, SweepMark
from formats.evidence import Evidence
from formats.fields import choices, matching
from formats.outcome import Disturbance, Energy, QueueSummary, Replicas, Trial
from formats.work import MATRIX_PRODUCTS, MEMORY, NEITHER

SCHEMA = "result-2"


class Status(StrEnum):
    """How a cell ended."""

    OK = "ok"
    INVALID = "invalid"
    OOM = "oom"
    UNSUPPORTED = "unsupported"
    ERROR = "error"
    SKIPPED = "skipped"


CAUSES = (
    "loadgen",
    "overload",
    "evidence",
    "precision",
    "accuracy",
    "kept answers",
    "speed",
    "clock",
    "audit",
)
"""The reasons why a result is invalid."""
FINAL = (Status.OK, Status.INVALID, Status.UNSUPPORTED)
"""After these, the same command measures again. After the others, it continues the same attempt."""


@dataclass(frozen=True)
class Metric:
    """The figure of a result: `samples_per_second` (a mean), `latency_p90` (by early stopping or as
    a plain percentile), or `ms_per_step` of a training.
    """

    name: str
    value: float
    unit: str
    higher_is_better: bool
    estimate: str = "mean"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The accuracy: a score as `compliance.scoring.value.Accuracy` has it."""

    metric: str
    value: float
    threshold: float
    passed: bool
    detail: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OfficialScore:
    """The official metric of a run of `--benchmark`.

    Attributes:
        benchmark: the official benchmark.
        values: metric → its value.
        limits, at_most: metric → its lower limit, and its upper one.
        line: the line that the benchmark's script prints.
        passed: whether the values are within the limits.
        closed: whether the result may enter the closed division, without which the limits are no
            verdict.
        lacks: what an eligible result lacks.
    """

    benchmark: str
    values: Mapping[str, float]
    limits: Mapping[str, float]
    at_most: Mapping[str, float] = field(default_factory=dict)
    line: str
    passed: bool
    closed: bool
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The evidence in one sentence, and as the worker took it after the test."""

    sentence: str
    after: Evidence | None


@dataclass(frozen=True, kw_only=True)
class Served:
    """Requests that arrived over time: the rates that were tried, and the queue of the test."""

    search: tuple[Trial, ...]
    queue: QueueSummary


@dataclass(frozen=True, kw_only=True)
class Result:
    """result.json: everything derived from one run directory.

    Attributes:
        started: when the attempt began, in ISO 8601 with its offset; empty if nothing was run.
        model_facts: the model's layers, width and parameters in words; empty: not known.
        versions: of Python, the frameworks, NumPy and LoadGen in the SUT's environment.
        sweep: its place in a sweep; None: it was not measured by a sweep.
        cause: why the result is `invalid`: one of CAUSES.
        refused: why the cell was skipped: TOO_SHORT, PUT_OFF, CUT_OFF or NOT_PREPARED → its number
            (`formats.outcome`); empty for other reasons.
        loadgen: LoadGen's own verdict. Mode `quick` reports it and does not require it to be VALID.
        metrics: name with unit → value, for all other numbers from the logs.
        binds: the limit of the machine of which the cell uses the larger share: `matrix products`
            or `memory`; `neither` if both shares are small; empty if one of them is not known.
        accuracy: None: not judged, and `warnings` gives the reason.
        official: of a run of `--benchmark`, whose verdict is not `accuracy`. None for other runs.
        seconds: the seconds of each phase, their sum `total`, and `until_measuring`.
        peak_host_bytes: the most memory of the worker, without the memory that watching a call
            takes (`scenarios.worker.system.host_memory`).
        peak_device_bytes: the most memory of the framework on the accelerator; None on a CPU.
        energy: joules of the performance test by source, `absent` (source → reason), and the GPU's
            clocks.
        measured: the counts that the figure is computed from: samples, batches, padding_fraction
            (the share of rows without a sample), passes over the data set, and the tokens of a
            model that generates.
        serving: None: requests did not arrive over time.
        replicas: what they did in the performance test; None: there is one SUT.
        disturbance: what disturbed the measurement.
        levels: the levels that pass the audit.
        ranked: whether this figure may be compared with others. `unranked`: the reasons if not, one
            sentence each.
    """

    cell: Cell
    model_facts: str = ""
    started: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    sweep: SweepMark | None = None
    mode: str = field(metadata=choices(MODES))
    round: str = field(metadata=matching(r"^v[0-9]+\.[0-9]+$"))
    directory: str
    status: Status
    reason: str = ""
    cause: str | None = field(default=None, metadata=choices(CAUSES))
    refused: Mapping[str, float] = field(default_factory=dict)
    loadgen: str | None = None
    metric: Metric | None = None
    metrics: Mapping[str, int | float] = field(default_factory=dict)
    binds: str = field(default="", metadata=choices(("", MATRIX_PRODUCTS, MEMORY, NEITHER)))
    accuracy: Judgement | None = None
    official: OfficialScore | None = None
    evidence: Seen | None = None
    seconds: Mapping[str, int | float] = field(default_factory=dict)
    peak_host_bytes: int = 0
    peak_device_bytes: int | None = None
    energy: Energy | None = None
    measured: Mapping[str, int | float] = field(default_factory=dict)
    serving: Served | None = None
    replicas: Replicas | None = None
    disturbance: Disturbance | None = None
    levels: tuple[str, ...] = ()
    audit: Mapping[str, int] = field(default_factory=dict)
    ranked: bool = False
    unranked: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    schema: str = field(default=SCHEMA, metadata=choices((SCHEMA,)))

    @property
    def seen(self) -> Evidence | None:
        """The evidence that the worker took after the test; None: there is none."""
        return self.evidence.after if self.evidence else None


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A cell of a sweep that cannot be measured here, and why."""

    command: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Document:
    """The document that `run` and `sweep` print with `--json`.

    Attributes:
        preface: for a sweep: the values that all cells share, and the machine.
        answer: for a sweep: which SUT is fastest and by how much, in sentences, the most important
            first.
        refused: for a sweep: cells that cannot be measured here.
    """

    cells: tuple[Result, ...]
    preface: str = ""
    answer: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
