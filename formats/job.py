"""job.json: the work of one worker process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from formats.cell import IN_WORKLOAD, Cell
from formats.fields import typed
from formats.workload import Config, Variables, Workload
from formats.writing import read_json

PERFORMANCE, ACCURACY = TESTS = ("performance", "accuracy")
"""The tests of every cell, in their order; compliance tests come after them."""
REFERENCE = "reference"
"""The value of `Job.test` for the worker that creates a reference."""
SERVE = "serve"
"""The value of `Job.test` and of `Job.procedure` for the worker behind `./run.sh serve`."""
LOADGEN = "loadgen"
"""The value of `Job.procedure` for a LoadGen test."""
COUNT = "work"
"""The value of `Job.procedure` for a worker that only counts the work of a reference."""
PROFILE = "profile"
"""The value of `Job.test` and of `Job.procedure` for a worker whose steps are profiled."""

Calibration = Mapping[str, int | float]
"""Name of a number that a calibration measured → the number."""
Settings = Mapping[str, float]
"""Key of user.conf → its value."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """LoadGen's settings of one test, resolved by the parent from compliance/rules/<round>.toml and
    --mode.

    Attributes:
        min_duration_ms: LoadGen calls a shorter test INVALID.
        performance_sample_count: distinct samples LoadGen keeps loaded.
        equal_issue: `sample_concatenate_permutation`: every sample is issued equally often. The
            rules require it for language models. We also require it for inputs that cost different
            amounts, so that every SUT measures the same prompts.
        rate_margin: Offline: how many times as fast as calibrated the SUT may be before the test
            becomes too short.
        trace_bytes: LoadGen's trace is written if its predicted size is below this.
        planned_ms: quick: the planned length of the test; 0: the length is that of LoadGen's own
            arithmetic.
        longest_ms: quick: a test is refused if its least count takes longer than this; 0: no limit.
        allowed_ms: quick: a test that takes at most so long is not refused, although it takes
            longer than `longest_ms`.
        rival_sample_ns: nanoseconds of a sample of the fastest rival. A SUT that is far slower in
            its calibration is put off. 0: none is.
    """

    min_duration_ms: int
    min_query_count: int
    performance_sample_count: int
    equal_issue: bool = False
    calibration_seconds: float = 1.5
    rate_margin: float = 1.0
    trace_bytes: int = 32 << 20
    planned_ms: int = 0
    longest_ms: int = 0
    allowed_ms: int = 0
    rival_sample_ns: float = 0.0

    @property
    def quick(self) -> bool:
        """True for a quick test, which is planned to last `planned_ms`."""
        return self.planned_ms > 0


@dataclass(frozen=True, kw_only=True)
class Known:
    """The numbers that an earlier repeat of the same cell in the same sweep measured.

    Attributes:
        calibration: its calibration, with the rate of its performance test. Empty for Server, whose
            capacity every repeat measures.
        rate: Server: the requests a second that it found, near which the search begins.
        second_ns: nanoseconds of a warm batch of each shape of the warm-up (`figures.second_ns`).
        matrix_flops: floating-point operations a second of a large matrix product; None: the SUT
            multiplies none.
    """

    calibration: Calibration
    second_ns: tuple[int, ...]
    matrix_flops: float | None
    rate: float | None = None


@dataclass(frozen=True, kw_only=True)
class Serving:
    """How the requests of a Server test arrive, are batched and are judged: the values of a cell,
    and the percentile. `./run.sh serve` has only `max_wait_ms`.

    Attributes:
        max_wait_ms: how long a request waits for others before a smaller batch is formed.
        percentile: the share of the requests, in percent, that must be within the limits.
        max_latency_ms: the limit of a whole answer; None if tokens are judged.
        max_ttft_ms, max_tpot_ms: the limits of the time to the first token, and of the time per
            later token; None if whole answers are judged.
        rate: requests a second, as the user gave them; None: the highest rate is found.
    """

    max_wait_ms: float
    percentile: float
    max_latency_ms: float | None = None
    max_ttft_ms: float | None = None
    max_tpot_ms: float | None = None
    rate: float | None = None


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one replica of a SUT runs.

    Attributes:
        cores: the logical processors to which it is pinned; empty: it is not pinned.
        device: the accelerator that it sees, in the words of the device's variable
            (`sut.devices.Device.chosen_by`); empty: none.
    """

    cores: tuple[int, ...] = ()
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How a cluster starts the replicas of a SUT, which connect over its network.

    Attributes:
        command: starts the words after it on the nodes, once for each replica, and adds the number
            of the replica, its place among those of its node, and how many share the node.
        interface: the address of this machine on which replicas connect.
        pinned: whether each replica is pinned to cores of its own.
        threads: the logical processors that it uses of these; None: all.
    """

    command: tuple[str, ...]
    interface: str
    pinned: bool
    threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class Job:
    """The work of one worker process: a LoadGen test, a training, or the computing of a reference.

    Attributes:
        cell: that of the run. For a reference: the reference's own SUT, precision and batch size.
        config, checkpoint, backend, execution, settings, converted: see `Workload`.
        test: one of TESTS, a compliance test (`TEST01`, …), or REFERENCE.
        procedure: a name in `procedures.PROCEDURES`: `loadgen`, `reference` (answers without
            LoadGen), `fit` (training), `serve` (requests of a server), `work` (only work.json),
            `start` (nothing after the warm-up) or `profile` (the time of a step by class of
            operation).
        benchmark: the name by which LoadGen looks up its configuration.
        answer: the keys of `to_host` that form the answer, in payload order.
        inputs: .npz that the parent wrote, with the same bytes for every SUT.
        synthetic: .npz of the same shapes with other values. Its first `warmup_rows` rows have each
            shape once.
        fresh: .npz of inputs that the SUT has never met, with the lengths of the data set; None:
            none are timed. For a training it contains the held-out batches.
        audit: the settings that the worker writes to audit.config for a compliance test; empty: no
            file.
        calibration: that of the performance test, for the tests after it. They use the same
            user.conf and are not calibrated again.
        known: what need not be measured again; None: everything is measured.
        made_with: digests of environment and source. The worker ignores them; a resumed run
            compares them.
        batch_sizes: the sizes of batches that the scenario forms, ascending. The last one is that
            of the cell. Empty: all batches have that size.
        percentile: see `Serving`; None: the scenario has no arrivals.
        reference: reference.npz. Teacher-forced logits are computed for its first `logits_rows`
            answers.
        variables: environment variables that the switches of `--tuned` set.
        places: where the replicas of `--replicas` run. One place: the worker runs there by itself.
            Several: it drives as many replicas. Empty: neither replicas nor threads were requested.
        launch: how a cluster starts the replicas, also a single one. None: they are processes of
            this machine.
        length_buckets: widths to which Offline cuts batches of inputs of similar lengths,
            ascending; the last one is the width of the inputs. Empty: batches have their order and
            their padding.
    """

    cell: Cell
    architecture: str
    config: Config
    checkpoint: Path
    backend: str | None
    execution: str
    test: str
    benchmark: str
    answer: tuple[str, ...]
    inputs: Path
    synthetic: Path
    warmup_rows: int
    limits: Limits
    log_dir: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    converted: Path | None = None
    reference: Path | None = None
    logits_rows: int = 0
    calibration: Calibration | None = None
    made_with: Mapping[str, str] = field(default_factory=dict)
    audit: Mapping[str, int] = field(default_factory=dict)
    procedure: str = LOADGEN
    fresh: Path | None = None
    known: Known | None = None
    batch_sizes: tuple[int, ...] = ()
    percentile: float | None = None
    variables: Variables = field(default_factory=dict)
    places: tuple[Place, ...] = ()
    launch: Launch | None = None
    length_buckets: tuple[int, ...] = ()

    @property
    def sut(self) -> str:
        """The SUT, or the reference."""
        return self.cell.sut

    @property
    def scenario(self) -> str:
        """See `Cell.scenario`."""
        return self.cell.scenario

    @property
    def stream(self) -> bool:
        """See `Cell.stream`."""
        return self.cell.stream

    @cached_property
    def workload(self) -> Workload:
        """What the SUT gets of it."""
        return Workload(
            **{name: getattr(self.cell, name) for name in IN_WORKLOAD},
            config=self.config,
            checkpoint=self.checkpoint,
            backend=self.backend,
            execution=self.execution,
            settings=self.settings,
            converted=self.converted,
        )

    @property
    def serves(self) -> bool:
        """Whether requests arrive over time, and are batched and judged as the cell says."""
        return self.percentile is not None

    @property
    def audit_config(self) -> Path:
        """The path that LoadGen is always given, because it would silently read ./audit.config. The
        file exists only for a compliance test.
        """
        return self.log_dir / ("audit.config" if self.audit else "no-audit.config")

    @property
    def replicated(self) -> bool:
        """Whether the worker drives replicas, and does not run the SUT itself."""
        return len(self.places) > 1 or self.launch is not None


def read_job(path: Path) -> Job:
    """Read a Job from its file. Raises OSError, ValueError or TypeError if the file has none."""
    return typed(Job, read_json(path))
