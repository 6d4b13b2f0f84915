"""Cell (what is measured) and Result (what came of it). Plain, frozen, picklable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from scenarios.table import SCENARIOS

MODES = ("quick", "valid", "submission")
SIZES = ("tiny", "base", "full")
TASKS = ("predict", "generate")
PRECISIONS = ("float32", "tf32", "bfloat16")
END_TOKENS = ("stop", "ignore")
LORA = ("own", "matched")
STANDARD_INPUTS = ("synthetic", "uneven")


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


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Everything that may change the figure. Two runs of equal cells may be compared.

    Attributes:
        seq_len: tokens every input is padded to (predict); None of a model that generates, whose lengths are those of its prompts.
        dataset: `synthetic` (random inputs, all of full length), `uneven` (random inputs of seeded lengths), or of a user's inputs the
            first 12 hex digits of their sha256.
        weights: the first 12 hex digits of the checkpoint's digest.
        options: the SUT's own options.
        eos: of a model that generates: `stop` ends an answer at its end token, `ignore` gives each answer all tokens it asks for.
        variables: environment variables that may change the figure, which the user has set; most cells have none.
        lora: of a training that adapts a model by LoRA: `own` trains what the framework's LoRA has, `matched` the same parameters in every
            SUT.
        steps: how many steps of denoising make one image; None of a model that makes none.
        prompt_tokens, new_tokens: of each synthetic prompt and of its answer; None where they are the size's own, or those of the dataset.
    """

    sut: str
    model: str
    size: str
    task: str
    scenario: str
    precision: str
    batch_size: int
    device: str
    seq_len: int | None = None
    dataset: str = "synthetic"
    weights: str = "seeded"
    options: Mapping[str, Any] = field(default_factory=dict)
    eos: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    lora: str | None = None
    steps: int | None = None
    prompt_tokens: int | None = None
    new_tokens: int | None = None

    @property
    def digest(self) -> str:
        """The first 8 hex digits of the sha256 of all its values: it names the run directory."""
        values = asdict(self)
        for name in ("variables", "lora", "steps", "prompt_tokens", "new_tokens"):  # cells of older releases have no such values
            if not values[name]:
                del values[name]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """`mistral-full-generate/Offline/keras3-jax-bfloat16-b32-3f2a91c0`: model first, so that a listing puts rivals together."""
        return f"{self.stem}{self.digest}"

    @property
    def stem(self) -> str:
        """Its name before the digest, which is known once weights and inputs are."""
        return f"{self.model}-{self.size}-{self.task}/{self.scenario}/{self.sut}-{self.precision}-b{self.batch_size}-"


@dataclass(frozen=True, kw_only=True)
class SweepMark:
    """Which measurement of a sweep an attempt is. An attempt without one was measured by itself.

    Attributes:
        id: the sweep's folder below `sweeps/`.
        series: the place of the cell in sweep.json, from 0.
        repeat: from 1.
        twin: whether it is the first cell once more, which shows how much two series of one cell differ.
    """

    id: str
    series: int
    repeat: int
    twin: bool = False


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

    @property
    def compared(self) -> Metric | None:
        """The figure by which SUTs are compared: in SingleStream the median latency, else LoadGen's figure or that of a training.

        It is LoadGen's figure, too, if an older result does not hold the median. Such results are not compared with others.
        """
        key = SCENARIOS[self.cell.scenario].compared if self.cell.scenario in SCENARIOS else ""
        if self.metric is None or key not in self.metrics:
            return self.metric
        return Metric(key.removesuffix("_ms"), self.metrics[key], "ms", higher_is_better=False, estimate="median")

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


def short(value: float | None) -> str:
    """A figure as people read it: four digits, or a whole number where it has more; empty where there is none."""
    return "" if value is None else f"{value:,.4g}" if abs(value) < 9999.5 else f"{value:,.0f}"
