"""The rules of a round as frozen values: one class for each table of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Metric:
    """LoadGen's one number for a scenario: its key in the detail log."""

    key: str
    unit: str
    higher_is_better: bool


@dataclass(frozen=True)
class Scenario:
    """`counts`: whether the least count is of samples (Offline's one query holds them all) or of queries.

    Attributes:
        percentile: of the latencies, which early stopping and a latency limit are about.
        logged_as: the scenario its logs name: LoadGen has four, of which Interactive is none.
        inferred_from: scenarios whose logs an edge system may put in its place.
        samples_per_query: where queries are counted.
    """

    min_duration_ms: int
    least_count: int
    capped_by_dataset: bool
    percentile: float
    counts: str
    metric: Metric
    logged_as: str
    inferred_from: tuple[str, ...]
    samples_per_query: int

    def min_query_count(self, dataset_size: int) -> int:
        return min(self.least_count, dataset_size) if self.capped_by_dataset else self.least_count


@dataclass(frozen=True)
class Benchmark:
    """An official benchmark's row in the checkers' tables.

    Attributes:
        accuracy_sample_count: what an accuracy test takes; None: the data set.
        offline_samples: the least of Offline's query.
        accuracy, accuracy_at_most: metric → the least and the largest value of it that passes.
        accuracy_delta_percent: metric → how far TEST01's may be from the accuracy run's, where it is not the usual.
        required, optional: suite (`datacenter`, `edge`, or `both` for a system of both) → scenarios.
        latency_ns: scenario → what its 99th percentile may be at most.
        token_latency_ns: scenario → the same of `ttft` and `tpot`.
        by_scenario: scenario → fields that differ there.
        scenario: scenario → fields of the round's Scenario that differ for this benchmark.
    """

    performance_sample_count: int
    dataset_size: int
    equal_issue: bool
    token_latencies: bool
    accuracy: Mapping[str, float]
    accuracy_sample_count: int | None = None
    offline_samples: int | None = None
    accuracy_at_most: Mapping[str, float] = field(default_factory=dict)
    accuracy_delta_percent: Mapping[str, float] = field(default_factory=dict)
    required: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    latency_ns: Mapping[str, int] = field(default_factory=dict)
    token_latency_ns: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    by_scenario: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    scenario: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, scenario: str) -> Benchmark:
        return replace(self, **self.by_scenario.get(scenario, {}))


@dataclass(frozen=True)
class Layout:
    """Path templates below <division>/<submitter>/; `performance` and `accuracy` below the scenario.

    Attributes:
        measurements: the folder of `scenario_files` and of `measurements_file`, which may be a pattern of its name.
        compliance: the folder of a scenario's TEST01 and the others.
        submitter_folders: the folders a submitter's may hold.
        submitter_files, system_files: patterns of the files that it and systems/ may hold.
        documents: patterns of files for people, which may lie in either, beside scenarios and in them.
    """

    divisions: tuple[str, ...]
    system: str
    source: str
    model_mapping: str
    scenario: str
    performance: str
    accuracy: str
    measurements: str
    measurements_file: str
    compliance: str
    submitter_folders: tuple[str, ...]
    submitter_files: tuple[str, ...]
    system_files: tuple[str, ...]
    documents: tuple[str, ...]
    scenario_files: tuple[str, ...]
    performance_files: tuple[str, ...]
    accuracy_files: tuple[str, ...]
    tolerated_performance_files: tuple[str, ...]
    tolerated_scenario_entries: tuple[str, ...]
    largest_file_bytes: int


@dataclass(frozen=True)
class Truncation:
    """A log longer than `limit_bytes` becomes its first and last `keep_bytes` with `joint` between."""

    limit_bytes: int
    keep_bytes: int
    joint: str

    def cut(self, whole: bytes) -> bytes:
        """As truncate_accuracy_log.py does it; a log within the limit stays as it is."""
        if len(whole) <= self.limit_bytes:
            return whole
        return whole[: self.keep_bytes] + self.joint.encode() + whole[-self.keep_bytes :]


@dataclass(frozen=True)
class EvidenceRule:
    """What an execution must show; None: nothing is asked.

    Attributes:
        min_compiled_share: of the model's forward passes in the measured call. What was not measured does not pass.
        min_xla_programs: programs XLA compiled of the measured call.
        max_xla_programs: the same, at most.
        max_operators: run by themselves in one measured call, around what is compiled: to hand inputs over or to make one output of parts.
        xla_programs_counted: whether a SUT must count them; one of an execution without a compiler may have none to ask.
    """

    min_graphs: int = 0
    max_graphs: int | None = None
    max_graph_breaks: int | None = None
    max_new_graphs_while_measuring: int = 0
    min_compiled_share: float | None = None
    min_xla_programs: int | None = None
    max_xla_programs: int | None = None
    max_operators: int | None = None
    xla_programs_counted: bool = False


@dataclass(frozen=True)
class EarlyStopping:
    confidence: float
    tolerance: float


@dataclass(frozen=True)
class Dates:
    session_days: int
    clock_tolerance_s: float


@dataclass(frozen=True)
class ComplianceTest:
    """One TESTxx of mlcommons/inference, compliance/.

    Attributes:
        required_by: official benchmarks that need it in the closed and network divisions.
        audit: the keys of its audit.config but for the sampling target.
        files, optional_files: below its folder in the submission: those that must and those that may stand there.
        sampling_target: official benchmark, or "*", → answers LoadGen is asked to log; empty: the test logs none.
        truncated: whether its log of answers is cut as the accuracy run's is, and its accuracy.txt holds the hash.
        tolerance: of its speed, as a fraction of the performance run's; None: speeds are not compared.
        tolerance_single_stream: in SingleStream and MultiStream where the latency is at most `short_latency_ns`, a table of both.
        only_faster: being slower by more is no fault.
    """

    required_by: tuple[str, ...]
    audit: Mapping[str, int]
    files: tuple[str, ...]
    optional_files: tuple[str, ...] = ()
    sampling_target: Mapping[str, int] = field(default_factory=dict)
    truncated: bool = False
    tolerance: float | None = None
    tolerance_single_stream: float | None = None
    short_latency_ns: Mapping[str, int] = field(default_factory=dict)
    only_faster: bool = False

    def settings(self, official: str | None) -> dict[str, int]:
        """Every key of audit.config for this official benchmark, in the file's order."""
        target = self.sampling_target.get(official or "*", self.sampling_target.get("*"))
        return {**self.audit, **({} if target is None else {"accuracy_log_sampling_target": target})}


@dataclass(frozen=True)
class ScoredTest:
    """A TESTxx which a benchmark's own script scores: nothing in the tree but its `verdict_file` says what came of it."""

    required_by: tuple[str, ...]
    verdict_file: str


@dataclass(frozen=True)
class OutputLength:
    tolerance: float


@dataclass(frozen=True)
class Repeats:
    """A sample that takes `odd` times as long the first time as later on is for a person to judge.

    Attributes:
        least_seconds: to be spent on samples that are new, so that a machine's warming up does not count.
    """

    odd: float
    least_seconds: float


@dataclass(frozen=True)
class Tolerance:
    """How far a score may be off; the names are those of record.json's tolerance."""

    at_most: Mapping[str, float]
    at_least: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ProjectLimits:
    """This project's limits on what a run directory says of itself; see [project_limits] of the round's file.

    Attributes:
        trace_sample_bytes: scenario → what a sample takes in the trace.
        trace_bytes: mode → the size above which no trace is written.
        outcome_slack: `fraction` and `seconds` by which a test may take longer than its log.
        tolerance: score → precision → limits.
    """

    input_data_types: str
    trace_sample_bytes: Mapping[str, int]
    trace_bytes: Mapping[str, int]
    trace_slack: float
    outcome_slack: Mapping[str, float]
    tolerance: Mapping[str, Mapping[str, Tolerance]]


@dataclass(frozen=True)
class ConfKey:
    """`requested`: scenario (or "*") → the key that logs what was taken; value in the log = `factor` × value in user.conf.

    `default`: scenario (or "*") → the value in force where user.conf says none, if it is that of every benchmark (loadgen/mlperf.conf).
    """

    requested: Mapping[str, str]
    factor: float = 1.0
    default: Mapping[str, float] = field(default_factory=dict)

    def logged_as(self, scenario: str) -> str | None:
        return self.requested.get(scenario, self.requested.get("*"))


@dataclass(frozen=True)
class Rules:
    """One round.

    Attributes:
        seeds: `qsl_rng_seed`, `sample_index_rng_seed`, `schedule_rng_seed`.
        wheel: the requirement this project installs.
        versions: LoadGen's official versions of this round → the commit each logs.
        file_sha1: version → {path: sha1} as it logs them.
        draws_from_library: whether a performance test's loaded set is drawn from the whole library, not from its first samples.
        aliases: other names of benchmarks; `alias_parts`: what a name may hold, the first that fits, where it is none of them.
        accuracy_patterns: metric → what a line of accuracy.txt must match; its first group is the value.
        accuracy_most: metric → the largest value there can be.
        unlogged: what this round's LoadGen does not log → the key, or the value, it stands for.
        compliance_tests: by name, in the order they are run.
        scored_tests: compliance tests of single benchmarks, by name.
        user_conf: every key LoadGen reads.
        detail_keys: test, scenario or test-scenario → keys its detail log must have; `common` to all; with -plain and -tokens behind it
            those that depend on whether latencies of tokens are measured.
        summary_labels: label in the summary → key in the detail log.
        scenario_labels: scenario → labels that stand for another key in its summary.
    """

    round: str
    seeds: Mapping[str, int]
    wheel: str
    versions: Mapping[str, str]
    file_sha1: Mapping[str, Mapping[str, str]]
    draws_from_library: bool
    unlogged: Mapping[str, str | int]
    scenarios: Mapping[str, Scenario]
    benchmarks: Mapping[str, Benchmark]
    aliases: Mapping[str, str]
    alias_parts: Mapping[str, str]
    accuracy_patterns: Mapping[str, str]
    layout: Layout
    truncation: Truncation
    evidence: Mapping[str, EvidenceRule]
    early_stopping: EarlyStopping
    dates: Dates
    compliance_tests: Mapping[str, ComplianceTest]
    scored_tests: Mapping[str, ScoredTest]
    output_length: OutputLength
    repeats: Repeats
    user_conf: Mapping[str, ConfKey]
    detail_keys: Mapping[str, tuple[str, ...]]
    summary_labels: Mapping[str, str]
    scenario_labels: Mapping[str, Mapping[str, str]]
    accuracy_most: Mapping[str, float]
    project_limits: ProjectLimits

    def of(self, name: str) -> Rules:
        """With what the benchmark a folder is named for has of its own, by no submitter's mapping: LoadGen is asked by that name."""
        row = self.benchmarks.get(self.official(name, {}))
        changes = row.scenario if row else {}
        scenarios = {name: replace(scenario, **changes.get(name, {})) for name, scenario in self.scenarios.items()}
        return replace(self, scenarios=scenarios)

    def official(self, name: str, mapping: Mapping[str, Any]) -> Any:
        """What a folder's name means, by the submitter's `mapping` too; else itself (configuration.py, get_mlperf_model)."""
        if name in self.benchmarks:
            return name
        part = next((target for part, target in self.alias_parts.items() if part in name), name)
        return self.aliases.get(name) or mapping.get(name) or part
