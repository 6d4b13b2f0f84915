"""outcome.json: the report that a worker process writes at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from formats.evidence import Evidence

TOO_SHORT = "too short"
"""The test takes far longer than requested. Its number is the seconds of --duration it needs."""
PUT_OFF = "put off"
"""A rival is far faster. The number is the samples a second of the calibration."""
CUT_OFF = "cut off"
"""The time of a sweep was over. The number is the seconds that the measurement took until then."""

NOT_PREPARED = "not prepared"
"""The same before the measurement began."""
CUT_SHORT = "cut short"
"""An engine ended an answer that should have had all its tokens. The number is that of its tokens.
"""

Fields = dict[str, Any]
"""Some fields of a `WorkerOutcome`."""


@dataclass(frozen=True)
class Disturbance:
    """The disturbances of one test.

    Attributes:
        seconds: how long the test was watched.
        other_processors, stolen_processors: processors, on average, that other programs used and
            that the hypervisor kept; None: the system does not report it.
        stalls: the number of gaps between answers that were far longer than a usual batch.
        stalled_seconds: the sum of these gaps, each less a usual batch.
        longest_stall_seconds: the longest gap among them, whole; 0: there was none.
        children: processes that the worker started and that worked meanwhile.
        children_processors: processors, on average, that they used.
        clock_step_seconds: how far the calendar clock was set forwards during a LoadGen test.
            LoadGen's clock is the calendar (logging.h, high_resolution_clock).
        fresh_slower: how many times as long fresh inputs took, if a disturbed machine may be the
            reason; else None.
        threads: the framework's own count of its threads; None: it reports none.
    """

    seconds: float
    other_processors: float | None
    stolen_processors: float | None
    stalls: int
    stalled_seconds: float
    longest_stall_seconds: float
    children: int = 0
    children_processors: float = 0.0
    clock_step_seconds: float = 0.0
    fresh_slower: float | None = None
    threads: int | None = None


@dataclass(frozen=True)
class Energy:
    """The energy of a test. `joules`: by source. `absent`: source → why it has no figure. `clocks`:
    of the GPU, before and after.
    """

    joules: Mapping[str, float]
    absent: Mapping[str, str]
    clocks: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Plan:
    """The predicted cost of a test. `batches` have the SUT's batch size; the last one may be
    padded.
    """

    samples: int
    batches: int
    seconds: float
    memory_bytes: int
    log_bytes: int
    trace: bool


@dataclass(frozen=True)
class Trial:
    """One rate that was tried.

    Attributes:
        rate: requests a second.
        passed: whether as few requests were over the limits as LoadGen's early stopping allows, and
            the SUT kept up with them.
        requests: how many were issued. A trial that fails ends early.
        over: how many of them were over a limit.
        seconds: how long the trial took.
    """

    rate: float
    passed: bool
    requests: int
    over: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class QueueSummary:
    """The waiting requests and the batches of a test.

    Attributes:
        mean_waiting, most_waiting: the requests that waited when a batch began.
        mean_batch: the requests of a batch.
        left: the requests that were not answered when the last one had been issued.
        kept_up: whether the SUT kept up with the requests.
        good_fraction: the share of the requests within all limits.
    """

    mean_waiting: float
    most_waiting: int
    mean_batch: float
    left: int = 0
    kept_up: bool = True
    good_fraction: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Replica:
    """What one replica did in a test.

    Attributes:
        samples, batches: those that it answered.
        busy: the share of the test in which it worked on a batch.
    """

    samples: int
    batches: int
    busy: float
    node: str
    cores: tuple[int, ...]
    device: str
    precision: str
    graphs: int
    peak_device_bytes: int | None
    peak_host_bytes: int


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """What the replicas did in a test. Its time is that from the first batch to the last answer.

    Attributes:
        inputs: `resident`, because each replica has loaded all samples.
        idle_tail_seconds: from the last answer of the replica that ended first to that of the one
            that ended last.
        bytes_per_second: of batches and answers.
        dispatcher_us_per_batch: microseconds in which the LoadGen process handed out a batch and
            reported its answers.
        each: the replicas, by their numbers.
        accuracy_samples: in result.json: the samples of the accuracy test that each answered.
    """

    inputs: str
    idle_tail_seconds: float
    bytes_per_second: float
    dispatcher_us_per_batch: float
    each: tuple[Replica, ...]
    accuracy_samples: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fresh:
    """How long a SUT took for inputs that it had never met, compared with those that it had met.

    Attributes:
        size: the samples of a batch.
        rounds: how often both were timed.
        fresh_ns, again_ns, met_ns: the shortest times of a fresh batch, of the same one again, and
            of one that was met.
        slower: how many times as long the fresh ones took.
        thirds: the same in each third of the rounds; empty: there were too few.
        other_processors: processors that other programs and the hypervisor took meanwhile; None:
            the system does not report it.
        prepare_ns, copy_ns: of a fresh sample, in `prepare`, and in which it was copied.
    """

    slower: float
    rounds: int
    thirds: tuple[float, ...]
    other_processors: float | None
    size: int = 0
    fresh_ns: float = 0.0
    again_ns: float = 0.0
    met_ns: float = 0.0
    prepare_ns: float = 0.0
    copy_ns: float = 0.0


@dataclass(frozen=True)
class WorkerOutcome:
    """The report of a worker. It is written last and atomically: if it is absent, the process died,
    and the parent says how. Times are in nanoseconds.

    `answered`: samples and payload bytes handed to LoadGen. `test_start_ns` is on the system's
    monotonic clock, so that the parent can compute how long it took until measuring began.
    `energy`, `disturbance`: of the LoadGen test only. `answers`: see `answers.describe`.
    `kept_sha256`: the sha256 of answers.npz (`Watch.write`). `loaded_for`: the test for which this
    worker had loaded and warmed up the SUT; empty: it did so for this test. `import_ns`, `load_ns`,
    `warmup`, `cache_hits` and `cache_misses` are always of that loading. `cache_hits`: how many of
    the compiled programs, or converted models, were found in a cache on disk; `cache_misses`: how
    many were looked for there and made. `token_latencies`: of streamed answers, in nanoseconds
    (`Watch.token_latencies`). `in_one_part`: the share of streamed answers whose tokens were handed
    over at one moment. `search`: each rate that was tried. `queue`: None: requests do not arrive
    over time. `replicas`: None: there is one SUT. `seconds`: of a reference, step → its seconds
    (`scenarios.worker.reference`). `forked`: 0 for a fresh process; else the number of this process
    among those forked from one that had imported the SUT, whose import `import_ns` includes.
    `refused`: TOO_SHORT or PUT_OFF → its number, if the test was skipped for that; CUT_SHORT → its
    number after an error.
    """

    status: str
    reason: str = ""
    import_ns: int = 0
    load_ns: int = 0
    warmup: list[dict[str, Any]] = field(default_factory=list)
    calibration: dict[str, int | float] = field(default_factory=dict)
    plan: Plan | None = None
    test_start_ns: int = 0
    test_ns: int = 0
    answered: Mapping[str, int] = field(default_factory=dict)
    evidence_before: Evidence | None = None
    evidence_after: Evidence | None = None
    peak_host_bytes: int = 0
    energy: Energy | None = None
    disturbance: Disturbance | None = None
    kept_sha256: str = ""
    fresh: Fresh | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, Any] = field(default_factory=dict)
    loaded_for: str = ""
    cache_hits: int = 0
    cache_misses: int = 0
    token_latencies: Mapping[str, float] = field(default_factory=dict)
    in_one_part: float = 0.0
    search: tuple[Trial, ...] = ()
    queue: QueueSummary | None = None
    replicas: Replicas | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, float] = field(default_factory=dict)
    forked: int = 0

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node of each replica, if a cluster ran them; else empty."""
        each = self.replicas.each if self.replicas else ()
        return tuple(replica.node for replica in each if replica.node)
