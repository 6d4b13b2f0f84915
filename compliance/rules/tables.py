"""The rules of a round as frozen structs, one for each table of its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

T = TypeVar("T")
Names = tuple[str, ...]
ByName = Mapping[str, T]
Words = ByName[str]
Counts = ByName[int]
Numbers = ByName[float]
Values = ByName[Any]
"""The kinds of entries in a file: a list of names, and tables with any names for keys."""


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a round's file."""


class ReportedMetric(Table, frozen=True):
    """The one number that MLCommons publishes of a result.

    Attributes:
        key: its key in the detail log.
        unit: the unit in which it is published.
        words: what it counts, or which latency it is. {percentile} is replaced by the log's.
        per_unit: the logged value of one unit, such as 1e6 (nanoseconds) of one ms.
        inverse: whether the figure is `per_unit` divided by the logged value.
    """

    key: str
    unit: str
    higher_is_better: bool
    words: str
    per_unit: float = 1.0
    inverse: bool = False

    def text(self, logged: float) -> str:
        """The figure with its unit, from the logged value. Rates have LoadGen's six digits."""
        value = logged / self.per_unit
        if self.inverse:
            value = self.per_unit / logged if logged else 0.0
        if self.higher_is_better:
            value = float(f"{value:.6g}")
        return f"{value:.10g} {self.unit}"


class ScenarioRules(Table, frozen=True, kw_only=True):
    """The requirements of a round for one scenario.

    Attributes:
        least_count: the least number of samples or queries; `capped_by_dataset`: a smaller data set
            is enough.
        percentile: the percentile of the latencies, in percent, that early stopping and a latency
            limit use.
        counts: `samples` for Offline, whose one query contains them all; else `queries`.
        logged_as: the scenario that its logs name. LoadGen has four, and Interactive is none of
            them.
        inferred_from: scenarios whose logs an edge system may use instead.
        samples_per_query: the samples of a query, if queries are counted.
    """

    min_duration_ms: int
    least_count: int
    capped_by_dataset: bool
    percentile: float
    counts: str
    metric: ReportedMetric
    logged_as: str
    inferred_from: Names = ()
    samples_per_query: int = 1

    def min_query_count(self, dataset_size: int) -> int:
        """The least number of samples or queries for a data set of this size."""
        return min(self.least_count, dataset_size) if self.capped_by_dataset else self.least_count


class Benchmark(Table, frozen=True, kw_only=True):
    """An official benchmark's row in the checkers' tables.

    Attributes:
        accuracy_sample_count: the samples an accuracy test takes; None: the whole data set.
        offline_samples: the least number of samples in Offline's query.
        accuracy, accuracy_at_most: metric → the smallest and the largest value that passes.
        accuracy_delta_percent: metric → how far TEST01's value may be from the accuracy run's, if
            that is not the usual percentage.
        required, optional: suite (`datacenter`, `edge`, or `both` for a system of both) →
            scenarios.
        latency_ns: scenario → the limit on its 99th percentile.
        token_latency_ns: scenario → the limits on `ttft` (first token) and `tpot` (each later one).
        by_scenario: scenario → fields that differ there.
        scenario: scenario → fields of the round's ScenarioRules that differ for this benchmark.
        metric: scenario → fields of its ReportedMetric that differ for this benchmark.
        workload: the name of the workload that `--benchmark` runs; empty: it runs none.
        loadgen_name: the name by which `--benchmark` asks LoadGen for its configuration.
    """

    performance_sample_count: int
    dataset_size: int
    equal_issue: bool
    token_latencies: bool
    accuracy: Numbers
    accuracy_sample_count: int | None = None
    offline_samples: int | None = None
    accuracy_at_most: Numbers = {}
    accuracy_delta_percent: Numbers = {}
    required: ByName[Names] = {}
    optional: ByName[Names] = {}
    latency_ns: Counts = {}
    token_latency_ns: ByName[Counts] = {}
    by_scenario: ByName[Values] = {}
    scenario: ByName[Values] = {}
    metric: ByName[Values] = {}
    workload: str = ""
    loadgen_name: str = ""

    def of(self, scenario: str) -> Benchmark:
        """The row as it is in one scenario."""
        return replace(self, **self.by_scenario.get(scenario, {}))

    @property
    def metrics(self) -> list[str]:
        """The metrics that have a limit, in order, each once."""
        return [*dict.fromkeys((*self.accuracy, *self.accuracy_at_most))]


class OfficialWorkload(Table, frozen=True):
    """The model and the data of a benchmark, as `--benchmark` runs it.

    Attributes:
        architecture: the architecture that the model must have.
        model: that architecture in words.
        needs: the flags that give its files, in words.
        metric: a name in compliance.scoring.official.METRICS.
        files: name of each published file that the metric needs → its md5. The first one is the
            data set, unless that is a folder.
        closed_model: key of config.json → its value in the model of the closed division.
        sequence_length: tokens of an input, with padding. None: inputs have no such length.
        new_tokens: the most tokens of an answer. None: answers are not tokens.
        end_tokens: the ids at which answers of the closed division's model end.
        closed_by_default: whether config.json may leave these values out, because they are the
            defaults of Transformers.
        run_as: attributes of the model that differ when it is run as this benchmark.
    """

    architecture: str
    model: str
    needs: str
    metric: str
    files: Words
    closed_model: Values
    sequence_length: int | None = None
    new_tokens: int | None = None
    end_tokens: tuple[int, ...] = ()
    closed_by_default: bool = False
    run_as: Values = {}


class Layout(Table, frozen=True, kw_only=True):
    """The places of files in a submission, as path templates below <division>/<submitter>/.
    `performance` and `accuracy` are below the scenario.

    Attributes:
        measurements: the folder of `scenario_files` and of `measurements_file`, which may be a
            pattern.
        compliance: the folder of a scenario's compliance tests.
        submitter_folders: the folders that a submitter's folder may contain.
        submitter_files, system_files: patterns of the files that the submitter's folder and
            systems/ may contain.
        documents: patterns of files for people. They may be in either folder, next to scenarios and
            in them.
    """

    divisions: Names
    system: str
    source: str
    model_mapping: str
    scenario: str
    performance: str
    accuracy: str
    measurements: str
    measurements_file: str
    compliance: str
    submitter_folders: Names
    submitter_files: Names
    system_files: Names
    documents: Names
    scenario_files: Names
    performance_files: Names
    accuracy_files: Names
    tolerated_performance_files: Names
    tolerated_scenario_entries: Names
    largest_file_bytes: int


class Truncation(Table, frozen=True):
    """The rule for truncating a log of answers. A log over `limit_bytes` becomes its first and last
    `keep_bytes`, joined by `joint`.
    """

    limit_bytes: int
    keep_bytes: int
    joint: str

    def is_cut(self, content: bytes) -> bool:
        """Return whether a log is truncated. On Windows the joint has other ends of lines."""
        return self.joint.encode() in content.replace(b"\r\n", b"\n")

    def cut(self, whole: bytes) -> bytes:
        """Return the log as truncate_accuracy_log.py truncates it. A log within the limit stays as
        it is.
        """
        if len(whole) <= self.limit_bytes:
            return whole
        return whole[: self.keep_bytes] + self.joint.encode() + whole[-self.keep_bytes :]


class EvidenceRule(Table, frozen=True):
    """The evidence that an execution must show; None: nothing is required.

    Attributes:
        min_compiled_share: the least share of the model's forward passes in the measured call that
            run compiled. It must have been measured.
        min_xla_programs, max_xla_programs: the limits on the number of programs that XLA compiled
            for the measured call.
        a_batch, a_pass: name of a count in the evidence's detail → the (least, most) of it in a
            batch of the watched call, or in a forward pass of the model. The limits do not apply to
            a framework without this count.
        least_of_work: the least part of the reference's operations that a watched call must run.
        xla_programs_counted: whether a SUT must count XLA's programs. An execution without a
            compiler may be unable to.
    """

    min_graphs: int = 0
    max_graphs: int | None = None
    max_graph_breaks: int | None = None
    max_new_graphs_while_measuring: int = 0
    min_compiled_share: float | None = None
    min_xla_programs: int | None = None
    max_xla_programs: int | None = None
    a_batch: ByName[tuple[int, int]] = {}
    a_pass: ByName[tuple[int, int]] = {}
    least_of_work: float | None = None
    xla_programs_counted: bool = False


class EarlyStopping(Table, frozen=True):
    """The parameters of early stopping's binomial test, as fractions."""

    confidence: float
    tolerance: float


class Dates(Table, frozen=True):
    """The largest difference in time between the two tests of one result, and between the clocks of
    one log.
    """

    session_days: int
    clock_tolerance_s: float


class Tolerance(Table, frozen=True):
    """The limits on an accuracy score. Names are those of record.json's tolerance, with `*` for the
    name of an answer.
    """

    at_most: Numbers
    at_least: Numbers = {}


class ProjectLimits(Table, frozen=True, kw_only=True):
    """This project's limits on the claims of a run directory; see [project_limits] of the round's
    file.

    Attributes:
        input_data_types: what measurements.json must say of the inputs if the record does not
            contain their dtypes.
        trace_sample_bytes: scenario → the bytes of a sample in the trace.
        trace_bytes: mode → the size above which no trace is written.
        trace_slack: the factor by which the predicted size of a trace may exceed the size it would
            have had.
        outcome_slack: `fraction` and `seconds` by which a worker may take longer for a test than
            its log.
        clock_step: `fraction` and `seconds` by which LoadGen's clock may go from the worker's.
        fresh_slower: how many times as long fresh inputs may take as inputs that the SUT has met.
        fresh_slower_disturbed: the same, if others took `other_processors` or more meanwhile.
        fresh_slower_in_thirds: `most` is the same limit, for a difference that shows in each third
            of at least `rounds` rounds while others took fewer than `other_processors` processors.
        faster_than_products: a model's operations a second may be at most this many times those of
            a large matrix product.
        faster_than_products_int8: the same for products of 8-bit numbers.
        tolerance: score → precision → limits.
    """

    input_data_types: str
    trace_sample_bytes: Counts
    trace_bytes: Counts
    trace_slack: float
    outcome_slack: Numbers
    clock_step: Numbers
    fresh_slower: float
    fresh_slower_disturbed: float
    fresh_slower_in_thirds: Numbers
    faster_than_products: float
    faster_than_products_int8: float
    tolerance: ByName[ByName[Tolerance]]


class ConfKey(Table, frozen=True):
    """One setting of user.conf, and its form in the detail log.

    Attributes:
        requested: scenario, or "*" → the key of the detail log.
        default: scenario, or "*" → the text in force if user.conf has none and all benchmarks
            share it (loadgen/mlperf.conf).
    """

    requested: Words = {}
    default: Words = {}

    def default_in(self, scenario: str) -> str | None:
        """The text in force if user.conf has none; None if benchmarks differ in it."""
        return self.default.get(scenario, self.default.get("*"))

    def logged_as(self, scenario: str) -> str | None:
        """The key of the detail log in one scenario; None: it is not logged there."""
        return self.requested.get(scenario, self.requested.get("*"))


class ComplianceTest(Table, frozen=True, kw_only=True):
    """One TESTxx of mlcommons/inference, compliance/.

    Attributes:
        required_by: the official benchmarks that need it in the closed and network divisions.
        audit: the settings in its audit.config, without the sampling target.
        files, optional_files: the files that its folder of the submission must contain, and those
            that it may contain.
        sampling_target: official benchmark, or "*" → the number of answers that LoadGen is to log;
            empty: the test logs none.
        truncated: whether its log of answers is truncated like the accuracy run's, with the hash in
            its accuracy.txt.
        tolerance: how much its speed may differ, as a fraction of the performance run's; None:
            speeds are not compared.
        tolerance_single_stream: the same for SingleStream and MultiStream, if the latency is at
            most `short_latency_ns`.
        short_latency_ns: scenario → that latency.
        only_faster: whether the test may be slower by any amount.
    """

    required_by: Names
    audit: Counts
    files: Names
    optional_files: Names = ()
    sampling_target: Counts = {}
    truncated: bool = False
    tolerance: float | None = None
    tolerance_single_stream: float | None = None
    short_latency_ns: Counts = {}
    only_faster: bool = False

    def settings(self, official: str | None) -> dict[str, int]:
        """The whole audit.config for this official benchmark: key → value, in the file's order."""
        target = self.sampling_target.get(official or "*", self.sampling_target.get("*"))
        return {
            **self.audit,
            **({} if target is None else {"accuracy_log_sampling_target": target}),
        }


class ScoredTest(Table, frozen=True):
    """A TESTxx that a benchmark's own script scores. Only its `verdict_file` in the submission says
    how it ended.
    """

    required_by: Names
    verdict_file: str


class OutputLength(Table, frozen=True):
    """The limit on the mean length of TEST01's answers: the fraction by which that length may
    differ from the accuracy run's.
    """

    tolerance: float


class EndpointsFigure(Table, frozen=True):
    """A figure as MLCommons publishes it.

    Attributes:
        key: its place in result_summary.json; a dot leads one level down.
        unit: the unit of the published figure.
        divisor: the value in result_summary.json is `divisor` times the published one.
        percentile: the row, if the place has a table of percentiles.
    """

    key: str
    unit: str
    divisor: float = 1.0
    percentile: float | None = None


class EndpointsScenario(Table, frozen=True):
    """A scenario as config.yaml names it.

    Attributes:
        type: `type` of config.yaml.
        load_patterns: `settings.load_pattern.type`.
        figure: the name of the figure that is published.
        target_concurrency: `settings.load_pattern.target_concurrency`; None: any.
        type_checked: whether the checker looks at `type`.
    """

    type: str
    load_patterns: Names
    figure: str
    target_concurrency: int | None = None
    type_checked: bool = False


class EndpointsModel(Table, frozen=True):
    """A benchmark that may be measured with mlcommons/endpoints.

    Attributes:
        known_by: names of its data sets and scorers. They show the benchmark of a result without a
            submission around it.
        figures: scenario → the name of the figure that is published, if it is another one than the
            scenario's.
        score_keys: metric → the keys of its value in a score that has several values; the first
            one that is there counts. Other scores are the value of the first metric.
        score_factor: a score times this is in the unit of the metric's limits.
        score_checked: whether the checker compares the score with its limits. Otherwise it asks
            only that there is one.
        audit_tests: check → the name of the compliance test that must have passed.
        mean_output_tokens: the least and the most that an answer of the performance run has on
            average; empty: no limits.
    """

    known_by: Names
    figures: Words = {}
    score_keys: ByName[Names] = {}
    score_factor: float = 1.0
    score_checked: bool = False
    audit_tests: Words = {}
    mean_output_tokens: tuple[float, ...] = ()


class EndpointsRules(Table, frozen=True):
    """The rules for results of mlcommons/endpoints.

    Attributes:
        seeds: setting of config.yaml → the round's seed that it must have.
        scenario_files: the files that a result must have in a submission besides its own and its
            measurements.
        since: the first round with such results.
        scenarios, figures, models: by name.
    """

    seeds: Words
    scenario_files: Names
    since: str
    scenarios: ByName[EndpointsScenario]
    figures: ByName[EndpointsFigure]
    models: ByName[EndpointsModel]


class Rules(Table, frozen=True, kw_only=True):
    """All rules of one round.

    Attributes:
        seeds: `qsl_rng_seed`, `sample_index_rng_seed`, `schedule_rng_seed`.
        wheel: the requirement this project installs.
        versions: LoadGen's official versions of this round → the commit each one logs.
        file_sha1: version → path → sha1, as that version logs them.
        draws_from_library: whether a performance test's loaded set is drawn from the whole library,
            and not only from its first samples.
        unlogged: a key that this round's LoadGen does not log → the key with the same value, or the
            value itself.
        unlogged_before: the same for revisions before the round's releases.
        workloads: the workloads of benchmarks, by name.
        token_metric: scenario → the figure of a model with token latencies.
        inferred_metric: scenario of a folder → scenario of its logs → the inferred figure.
        aliases: other name → benchmark. `alias_parts`: part of a name → benchmark, for names in
            neither table; the first part that fits is used.
        accuracy_patterns: metric → the regular expression of its line in accuracy.txt; the first
            group is the value.
        accuracy_most: metric → the largest possible value.
        compliance_tests: by name, in the order they are run.
        scored_tests: compliance tests of single benchmarks, by name.
        endpoints: the rules for results of mlcommons/endpoints.
        user_conf: every setting LoadGen reads, by its name in user.conf.
        detail_keys: `common`, test, scenario or test-scenario → keys that its detail log must have.
            A name that ends with -plain or -tokens is for logs without or with token latencies.
        summary_labels: label in the summary → key in the detail log.
        scenario_labels: scenario → labels that stand for another key in its summary.
        project_limits: what this project itself requires of a run directory.
    """

    round: str
    seeds: Counts
    wheel: str
    versions: Words
    file_sha1: ByName[Words]
    scenarios: ByName[ScenarioRules]
    benchmarks: ByName[Benchmark]
    token_metric: ByName[ReportedMetric]
    inferred_metric: ByName[ByName[ReportedMetric]]
    workloads: ByName[OfficialWorkload]
    aliases: Words
    alias_parts: Words
    accuracy_patterns: Words
    layout: Layout
    truncation: Truncation
    evidence: ByName[EvidenceRule]
    early_stopping: EarlyStopping
    dates: Dates
    compliance_tests: ByName[ComplianceTest]
    scored_tests: ByName[ScoredTest]
    endpoints: EndpointsRules
    output_length: OutputLength
    user_conf: ByName[ConfKey]
    detail_keys: ByName[Names]
    summary_labels: Words
    scenario_labels: ByName[Words]
    accuracy_most: Numbers
    project_limits: ProjectLimits
    draws_from_library: bool = False
    unlogged: ByName[str | int] = {}
    unlogged_before: ByName[str | int] = {}

    def of(self, name: str) -> Rules:
        """The rules for the benchmark in a folder's name. A submitter's mapping is not used here,
        because LoadGen looks settings up by the name.
        """
        row = self.benchmarks.get(self.official(name, {}))
        changes = row.scenario if row else {}
        if not changes:
            return self
        scenarios = {
            name: replace(scenario, **changes.get(name, {}))
            for name, scenario in self.scenarios.items()
        }
        return replace(self, scenarios=scenarios)

    def metric(
        self, scenario: str, logged: str, official: str | None, has_tokens: bool
    ) -> ReportedMetric:
        """The figure that is published of a result.

        Args:
            scenario: that of its folder.
            logged: that of its logs.
            official: the official benchmark; other names and None: there is none.
            has_tokens: whether the log has token latencies, if there is no official benchmark.
        """
        if logged in self.inferred_metric.get(scenario, {}):
            return self.inferred_metric[scenario][logged]
        row = self.benchmarks.get(official or "")
        metric = self.scenarios[scenario].metric
        if row:
            has_tokens = row.token_latencies
        if has_tokens:
            metric = self.token_metric.get(scenario, metric)
        if row:
            metric = replace(metric, **row.metric.get(scenario, {}))
        return metric

    def official(self, name: str, mapping: Values) -> Any:
        """The official benchmark that a folder's name means, or the name itself if it means none
        (configuration.py, get_mlperf_model).

        Args:
            mapping: the submitter's model_mapping.json.
        """
        if name in self.benchmarks:
            return name
        part = next((target for part, target in self.alias_parts.items() if part in name), name)
        return self.aliases.get(name) or mapping.get(name) or part
