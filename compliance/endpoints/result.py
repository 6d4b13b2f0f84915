"""A result of mlcommons/endpoints, read once: its three files, and the benchmark that it is of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from compliance.findings.check import shorten
from compliance.folders import ResultFolder
from compliance.logs import files, strict_json, strict_yaml
from compliance.logs.strict_json import Document, lookup
from compliance.rules import Benchmark, EndpointsFigure, EndpointsModel, Rules
from formats.checks import ResultLine

CONFIGS = ("config.yaml", "config.yml")
"""The names of the configuration. The checker takes the first one that it can read."""
SUMMARY = "performance/result_summary.json"
ACCURACY = "accuracy/accuracy_results.json"
SERIES = ("ttft", "tpot", "latency")
"""The latencies: to the first token, of each later one, and of the whole answer."""
LENGTHS = "output_sequence_lengths"
"""The tokens of each answer."""
WINDOW = "legacy_loadgen_window_duration_ns"
"""The window of a rate as LoadGen counts it: from the first query to the last completion."""
FIX = "keep the files that inference-endpoint wrote, or measure again"
"""How to correct files that contradict themselves."""

# A number beyond this cannot be computed with, and no file of a run has one.
_LARGEST = 1e300


@dataclass(frozen=True, kw_only=True)
class Result:
    """The content of one result folder. A file that cannot be read is empty.

    Attributes:
        rules: the round's rules for the benchmark.
        official: the official benchmark; empty: nothing shows which.
        scenario: the folder's scenario, or the one that the settings fit if the folder is not named
            for one.
        summary, accuracy, config: result_summary.json, accuracy_results.json and config.yaml.
        config_name: the name of the configuration that was read.
        faults: why files could not be read.
        ambiguous: the same for files that MLCommons' checker reads, and for two configurations that
            differ.
    """

    place: ResultFolder
    rules: Rules
    official: str
    scenario: str
    summary: Document
    accuracy: Document
    config: Document
    config_name: str
    faults: tuple[str, ...]
    ambiguous: tuple[str, ...]

    @property
    def row(self) -> Benchmark | None:
        """The benchmark's rules in this scenario; None if the round has no such benchmark."""
        row = self.rules.benchmarks.get(self.official)
        return row.of(self.scenario) if row else None

    @property
    def model(self) -> EndpointsModel | None:
        """The benchmark's rules for mlcommons/endpoints; None if it may not be measured with it."""
        return self.rules.endpoints.models.get(self.official)

    @property
    def entries(self) -> list[Document]:
        """The scores of the accuracy run, one for each data set (endpoints_parser.py,
        _endpoint_accuracy_sample_count).
        """
        entries = []
        for entry in _dicts(self.accuracy.get("accuracy_scores")):
            if entry.get("dataset_type") in (None, "accuracy"):
                entries.append(entry)
        return entries

    @property
    def least_ms(self) -> int:
        """The least duration of a performance run."""
        scenario = self.rules.scenarios.get(self.scenario) or self.rules.scenarios["Offline"]
        return scenario.min_duration_ms

    @property
    def figure(self) -> EndpointsFigure | None:
        """The figure that MLCommons publishes; None in a scenario that has none."""
        scenario = self.rules.endpoints.scenarios.get(self.scenario)
        if scenario is None:
            return None
        figures = self.model.figures if self.model else {}
        return self.rules.endpoints.figures[figures.get(self.scenario, scenario.figure)]

    def line(self, line: ResultLine) -> ResultLine:
        """The line of its folder, completed with its figure."""
        figure = self.figure
        line = replace(line, scenario=self.scenario, official=shorten(self.official))
        if figure is None:
            return line
        summary = self.summary
        key = figure.key
        value = number(summary, key)
        if figure.percentile is not None:
            value = dict(percentiles(summary, key)).get(figure.percentile)
        if value is None:
            return line
        rate, source = again(summary, key)
        recomputed = f"not computed again: {source}"
        if rate is not None:
            recomputed = f"{rate / figure.divisor} {figure.unit}, from {source}"
        text = f"{value / figure.divisor} {figure.unit}"
        return replace(line, figure=shorten(text), recomputed=recomputed)

    def show(self, name: str) -> str:
        """The path of one of its files, relative to the audited directory."""
        return self.place.show(self.place.folder / name)


def read(place: ResultFolder, rules: Rules) -> Result:
    """Reads a result folder. Files that cannot be read are noted in `faults` and raise nothing."""
    folder = place.folder
    summary, why = files.attempt(files.json_object, folder / SUMMARY)
    accuracy, why_not = files.attempt(files.json_object, folder / ACCURACY)
    name, config, no_config = _config(folder)
    faults: list[str] = []
    ambiguous = [*_two_configs(folder)]
    for path, fault in ((SUMMARY, why), (ACCURACY, why_not), (name, no_config)):
        if fault:
            (ambiguous if _is_ambiguous(folder / path, fault) else faults).append(fault)
    official = _official(place, rules, accuracy or {}, config or {})
    return Result(
        place=place,
        rules=rules.of(official),
        official=official,
        scenario=_scenario(place, rules, config or {}),
        summary=summary or {},
        accuracy=accuracy or {},
        config=config or {},
        config_name=name,
        faults=tuple(faults),
        ambiguous=tuple(ambiguous),
    )


def _config(folder: Path) -> tuple[str, Document | None, str]:
    """(the name, the content, why it cannot be read) of a result's configuration."""
    first_fault = ""
    for name in CONFIGS:
        config, why = files.attempt(files.yaml_object, folder / name)
        if config is not None:
            return name, config, ""
        first_fault = first_fault or why
    return CONFIGS[0], None, first_fault


def _two_configs(folder: Path) -> Iterator[str]:
    """Yield a sentence if there are two configurations that differ."""
    if not all(os.path.lexists(folder / name) for name in CONFIGS):
        return
    first, second = (files.maybe(files.yaml_object, folder / name) for name in CONFIGS)
    if first is None or first != second:
        yield f"{CONFIGS[0]} and {CONFIGS[1]} are there and differ"


def _is_ambiguous(path: Path, why: str) -> bool:
    """Whether MLCommons' checker reads a file that the audit does not read (endpoints_parser.py,
    _load_json, _load_yaml).
    """
    accepted = (*strict_json.LENIENT, *strict_yaml.LENIENT)
    return any(words in why for words in accepted) or files.link_to(path) is not None


def number(document: Any, path: str) -> float | None:
    """The number at a path; None if the value is no number."""
    return _number(lookup(document, path))


def again(summary: Document, key: str) -> tuple[float | None, str]:
    """(a rate as its count and window give it, their names), or (None, why there is none). See
    metrics/report.py, from_snapshot.
    """
    window = "duration_ns"
    queries = number(summary, "n_samples_completed")
    if number(summary, WINDOW) is not None:
        window = WINDOW
        queries = queries and queries - 1
    counts = {
        "qps": (queries, f"n_samples_completed{' - 1' if window == WINDOW else ''}"),
        "tps": (number(summary, f"{LENGTHS}.total"), f"{LENGTHS}.total"),
    }
    if key not in counts:
        return None, f"{SUMMARY} has no latencies of single queries"
    count, name = counts[key]
    span_ns = number(summary, window)
    if count is None or not span_ns or span_ns < 0:
        return None, f"{SUMMARY} has no {name} or no {window}"
    return count / span_ns * 1e9, f"{name} and {window}"


def numeric(value: Any) -> float | None:
    """The number that a value is, or that its text has; None if it is neither. Some scores are
    written as texts (evaluation/scoring.py, RougeScorer).
    """
    if isinstance(value, str):
        value, _ = files.reckon(partial(float, value))
    return _number(value)


def percentiles(document: Any, path: str) -> list[tuple[float, float | None]]:
    """(percentile, value) of each row of the table of percentiles at a path, in order. A percentile
    is written as 99.0 or as 99. None: the value is no number.
    """
    rows = []
    table = lookup(document, path)
    for key, value in table.items() if isinstance(table, dict) else ():
        percentile, _ = files.reckon(partial(float, key))
        if percentile is not None:
            rows.append((percentile, _number(value)))
    return sorted(rows, key=lambda row: row[0])


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and -_LARGEST < value < _LARGEST else None


def _dicts(values: Any) -> Iterator[Document]:
    """Yield the objects in a list; none if it is no list."""
    if isinstance(values, list):
        yield from (value for value in values if isinstance(value, dict))


def _official(place: ResultFolder, rules: Rules, accuracy: Document, config: Document) -> str:
    """The official benchmark of a result, by the folder in a submission. Elsewhere it is the one
    that the folder, config.yaml or a name of a data set or scorer shows.
    """
    if place.benchmark:
        mapping: Document = {}
        if place.division == "open":
            path = place.submitter_folder / rules.layout.model_mapping
            mapping = files.maybe(files.json_object, path) or {}
        return str(rules.official(place.benchmark, mapping))
    for name in (place.folder.parent.name, str(lookup(config, "submission_ref.model"))):
        if name in rules.benchmarks:
            return name
    names = {str(entry.get("dataset_name")) for entry in _dicts(accuracy.get("accuracy_scores"))}
    for dataset in _dicts(config.get("datasets")):
        names.add(str(lookup(dataset, "accuracy_config.eval_method")))
    for benchmark, model in rules.endpoints.models.items():
        if names.intersection(model.known_by):
            return benchmark
    return ""


def _scenario(place: ResultFolder, rules: Rules, config: Document) -> str:
    """The folder's scenario, or else the first one whose settings config.yaml has."""
    names = {name.lower(): name for name in rules.scenarios}
    own = names.get(place.scenario.lower())
    if own or place.benchmark:
        return own or place.scenario
    pattern = lookup(config, "settings.load_pattern.type")
    for name, scenario in rules.endpoints.scenarios.items():
        if scenario.type == config.get("type") and pattern in scenario.load_patterns:
            return name
    return place.scenario
