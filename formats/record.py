"""record.json: the facts about a run that a reader may need a year from now."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from formats.cell import MODES, Cell, SweepMark
from formats.fields import choices, least, matching
from formats.frameworks import ENGINE, FRAMEWORKS
from formats.job import PERFORMANCE
from formats.outcome import WorkerOutcome
from formats.work import Roof, Work
from formats.workload import Variables

SCHEMA = "record-4"
EXECUTIONS = ("eager", "compile", "script", "graph", "xla", "runtime", ENGINE)
WEIGHTS_SOURCES = ("seeded", "user", "none")
_SHA256 = "^[0-9a-f]{64}$"
_WORD = r"\S"


@dataclass(frozen=True, kw_only=True)
class BenchmarkNames:
    """This project's name of the benchmark, and the official benchmark that it is mapped to."""

    name: str = field(metadata=matching(_WORD))
    official: str = field(metadata=matching(_WORD))


@dataclass(frozen=True, kw_only=True)
class InputFacts:
    """The inputs.

    Attributes:
        samples: how many there are.
        performance_sample_count: how many of them LoadGen keeps loaded.
        synthetic: whether this project generated them.
        dataset: the path of a user's inputs.
        shortest, longest: lengths of inputs, in tokens; None: inputs have no length.
        padded_to: the width of their array, in tokens.
        denoising_steps: steps of one image; None: no image is created.
    """

    samples: int = field(metadata=least(1))
    performance_sample_count: int = field(metadata=least(1))
    synthetic: bool
    dataset: str | None = None
    shortest: int | None = None
    longest: int | None = None
    padded_to: int | None = None
    denoising_steps: int | None = None


@dataclass(frozen=True, kw_only=True)
class Judged:
    """How answers are judged.

    Attributes:
        score: a score of `compliance.scoring.accuracy`, or `loss_curve`.
        keys: the names of the arrays of an answer.
        tolerance: name of a limit → its value.
        reason: why there is no reference; empty: there is one.
        agreeing: the frameworks of the references that agree, if there are several.
        known: what the SUT's library is known to compute differently for this type of model.
    """

    score: str
    keys: tuple[str, ...]
    tolerance: Mapping[str, Any]
    reason: str = ""
    agreeing: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Official:
    """The official metric by which a run of `--benchmark` is judged.

    Attributes:
        metric: a name in `compliance.scoring.official`.
        suite: the suite of the system: `edge` or `datacenter`.
        files: name of each file that the metric needs, in `benchmark/` → its md5.
        lacks: what an eligible result lacks, as far as known before the run.
        not_closed: why the result may not enter the closed division, which has a target.
    """

    metric: str = field(metadata=matching(_WORD))
    suite: str = field(metadata=choices(("edge", "datacenter")))
    files: Mapping[str, str]
    lacks: tuple[str, ...] = ()
    not_closed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Digests:
    """Digests of what was read and written.

    Attributes:
        weights: BLAKE3 of the checkpoint, with its config.json.
        weights_source: one of WEIGHTS_SOURCES.
        weights_folder: the folder with a user's weights.
        inputs: sha256 of the inputs.
        reference: sha256 of reference.npz; empty or None: there is none.
        trace: sha256 of LoadGen's unpacked trace; None: the trace is not written, or not yet.
    """

    weights: str = field(metadata=matching(_SHA256))
    inputs: str = field(metadata=matching(_SHA256))
    reference: str | None = field(metadata=matching(f"^$|{_SHA256}"))
    weights_source: str | None = field(default=None, metadata=choices(WEIGHTS_SOURCES))
    weights_folder: str | None = None
    trace: str | None = None


@dataclass(frozen=True, kw_only=True)
class ArrayKind:
    """The dtype of an array, and its shape without the axis of samples. None in a shape: each
    sample has its own length.
    """

    dtype: str = field(metadata=matching("^[a-z]+[0-9]*$"))
    shape: tuple[int | None, ...]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The facts about a training.

    Attributes:
        parameters: how many parameters are trained, of the model or of LoRA.
        part: the beginning of the names of the trained parameters, if only a part of the model is
            trained; else empty.
        seed: the seed of synthetic inputs, else None.
        loss: the names of the losses, if the model's file decides them; else empty.
    """

    parameters: int | None
    part: str
    seed: int | None
    loss: str = ""


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """A GPU. A value is None if the driver does not report it.

    Attributes:
        cuda: the newest CUDA that the driver supports.
        processes: how many processes use its memory.
    """

    name: str
    memory_bytes: int
    driver: str
    cuda: str | None = None
    used_memory_bytes: int | None = None
    sm_mhz: int | None = None
    sm_most_mhz: int | None = None
    power_limit_w: float | None = None
    persistence: bool | None = None
    mig: bool | None = None
    processes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine. A value is None if the system does not report it.

    Attributes:
        node: the name of the machine, if a job of a cluster measured. Nodes of one kind differ only
            in it.
        cpu: the processor's name.
        cpu_family, cpu_model, cpu_stepping, cpu_flags: as in /proc/cpuinfo.
        usable_threads: the threads that this process may run on.
        cpu_quota: processors that the control groups may use, by the tightest quota.
        memory_limit_bytes: the bytes that the control groups may use, by the tightest limit.
        load_average: the load of the last 1, 5 and 15 minutes.
    """

    cpu: str
    node: str | None = None
    cpu_family: str | None = None
    cpu_model: str | None = None
    cpu_stepping: str | None = None
    cpu_flags: tuple[str, ...] = ()
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None
    usable_threads: int | None = None
    frequency_mhz: float | None = None
    frequency_now_mhz: float | None = None
    governor: str | None = None
    boost: bool | None = None
    cpu_quota: float | None = None
    clock_source: str | None = None
    swap_used_bytes: int | None = None
    caches: str | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    disk_bytes: int | None = None
    disk_free_bytes: int | None = None
    disk_kind: str | None = None
    network_cards: int | None = None
    operating_system: str | None = None
    kernel: str | None = None
    virtualisation: str | None = None
    load_average: tuple[float, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()

    @property
    def group_limits(self) -> str:
        """The limits of the control groups in words: `1 processor and 0.734 GB of memory`. Empty if
        they take nothing away.
        """
        words = []
        quota = self.cpu_quota
        limit_bytes = self.memory_limit_bytes
        if quota is not None and quota < (self.usable_threads or math.inf):
            words.append(f"{quota:g} processor{'' if quota == 1 else 's'}")
        if limit_bytes is not None and limit_bytes < (self.memory_bytes or math.inf):
            words.append(f"{limit_bytes / 1e9:.3g} GB of memory")
        return " and ".join(words)


@dataclass(frozen=True, kw_only=True)
class Git:
    """The source tree. A value is None if it is no checkout.

    Attributes:
        changed: the first 50 lines of `git status --porcelain`.
        worker_source_sha256: the sha256 of the Python files that a worker runs.
    """

    revision: str | None = None
    dirty: bool | None = None
    changed: tuple[str, ...] = ()
    worker_source_sha256: str = ""


@dataclass(frozen=True, kw_only=True)
class SutEnvironment:
    """The SUT's environment.

    Attributes:
        python: the path of its interpreter.
        versions: package → version; empty until a worker reported them.
        variables: environment variables that may change a figure.
    """

    name: str
    lock_sha256: str
    versions: Mapping[str, str]
    python: str = ""
    variables: Variables = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Record:
    """The content of record.json. Each field is a key of the file.

    Attributes:
        framework: the framework that computes, if its evidence contains counters of its own; empty:
            the SUT runs on none of these frameworks.
        inputs, answers: name of an array → its kind. The worker reports the kinds of answers.
        new_tokens_per_sample: tokens of an answer on average; None: no tokens are generated.
        parameters: the number of parameters of the checkpoint; tied ones count once.
        model_facts: the model's layers, width and parameters in words; empty: not known.
        official: None: the run is not of an official benchmark.
        system: fields of the system description that the user has given.
        training: None: nothing is trained.
        least_flops: a lower bound on the average floating-point operations of a sample, from the
            shapes of the weights; None: not known, or an answer ends at an end token. The audit
            judges by it whether a speed is possible.
        work: the operations of a sample and the elements that it moves, counted on the reference;
            None: not counted.
        roof: the kept limits of the SUT's framework on this machine, which `doctor --limits`
            measured; None: there are none.
        first_compile_seconds: how long the cell's programs took to compile in an earlier command,
            when none of them was kept on disk; None: not known.
        command_seconds: the time of the command that measured it: of each test's worker, of `audit`
            (the submission is written and audited), and the `total`.
        nodes: the node of each replica, if a cluster ran them; else empty.
        sweep: its place in a sweep; None: it was not measured by a sweep.
        notes: the chosen defaults, and other facts that a reader of the result should know.
    """

    cell: Cell
    mode: str = field(metadata=choices(MODES))
    round: str = field(metadata=matching("^v[0-9]"))
    command: str = field(metadata=matching(_WORD))
    submitter: str = ""
    benchmark: BenchmarkNames
    architecture: str = field(metadata=matching(_WORD))
    execution: str = field(metadata=choices(EXECUTIONS))
    framework: str = field(default="", metadata=choices((*FRAMEWORKS, "")))
    loadgen: str = ""
    qsl: InputFacts
    accuracy: Judged
    digests: Digests
    inputs: Mapping[str, ArrayKind] = field(default_factory=dict)
    answers: Mapping[str, ArrayKind] = field(default_factory=dict)
    new_tokens_per_sample: float | None
    end_tokens: tuple[int, ...] = ()
    parameters: int | None = None
    model_facts: str = ""
    official: Official | None = None
    system: Mapping[str, str] = field(default_factory=dict)
    training: Trained | None = None
    least_flops: float | None = None
    work: Work | None = None
    roof: Roof | None = None
    machine: Machine
    git: Git
    environment: SutEnvironment
    notes: tuple[str, ...] = ()
    setup_seconds: Mapping[str, int | float] = field(default_factory=dict)
    started_monotonic_ns: int = 0
    working_directory: str = ""
    process_id: int = 0
    started: str = ""
    nodes: tuple[str, ...] = ()
    sweep: SweepMark | None = None
    first_compile_seconds: float | None = None
    command_seconds: Mapping[str, int | float] = field(default_factory=dict)
    schema: str = field(default=SCHEMA, metadata=choices((SCHEMA,)))

    @property
    def no_reference(self) -> bool:
        """True if the record names no reference and gives the reason."""
        return not self.digests.reference and bool(self.accuracy.reason)

    @property
    def threads(self) -> int:
        """The logical processors that the SUT, or each replica, was pinned to: as many as the cell
        names, or those of the affinity mask, and at most the quota, rounded up.
        """
        usable = self.machine.usable_threads or 1
        granted = math.ceil(self.machine.cpu_quota or usable)
        return self.cell.threads or min(usable, granted)

    @property
    def node_count(self) -> int:
        """The number of nodes on which the SUT ran."""
        return len(set(self.nodes)) or 1

    @property
    def accelerator(self) -> Accelerator | None:
        """The accelerator that the cell ran on, which is the first one; None: it ran on the host's
        processor.
        """
        if self.cell.device == "cpu" or not self.machine.accelerators:
            return None
        return self.machine.accelerators[0]

    def after(self, test: str, seconds: float, outcome: WorkerOutcome, trace: str | None) -> Record:
        """The record, completed with the report of a test.

        It adds the versions of the environment, the kinds of answers, the nodes of replicas and, if
        not None, the digest of the trace.
        """
        seconds_so_far = {**self.command_seconds, test: round(seconds, 3)}
        digests = self.digests if trace is None else replace(self.digests, trace=trace)
        environment = replace(self.environment, versions=dict(outcome.versions))
        answers = {name: ArrayKind(**kind) for name, kind in outcome.answers.items()}
        return replace(
            self,
            environment=environment,
            answers=answers,
            digests=digests,
            command_seconds=seconds_so_far,
            nodes=outcome.nodes if test == PERFORMANCE else self.nodes,
        )

    def ended(self, audit_seconds: float) -> Record:
        """The record, completed with the seconds that the command took until now."""
        total = (time.monotonic_ns() - self.started_monotonic_ns) / 1e9
        seconds = {
            **self.command_seconds,
            "audit": round(audit_seconds, 3),
            "total": round(total, 3),
        }
        return replace(self, command_seconds=seconds)
