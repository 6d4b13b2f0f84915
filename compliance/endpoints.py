"""The audit of a result of mlcommons/endpoints, which has no LoadGen logs: its files, its counts
and rates, and the settings that the round's checker reads in config.yaml.

Source: inference, tools/submission/submission_structure.md (Endpoints submission structure) and
submission_checker/parsers/endpoints_parser.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compliance.findings.check import judge, mismatch, not_applicable
from compliance.logs import files
from compliance.logs.digits import close
from compliance.rules import Rules
from formats.checks import Check, Fault

CONFIG = "config.yaml"
SUMMARY = "performance/result_summary.json"
ACCURACY = "accuracy/accuracy_results.json"
_FIX = "keep the files that inference-endpoint wrote"
# Setting in config.yaml → the round's seed that it must have.
_SEEDS = {
    "dataloader_random_seed": "sample_index_rng_seed",
    "scheduler_random_seed": "schedule_rng_seed",
}
_LATENCIES = ("latency", "ttft", "tpot")
_RATE_DIGITS = 1e-3
_NO_LOADGEN = (
    "this is a result of mlcommons/endpoints, which has no LoadGen logs: LoadGen's build, settings,"
    " verdict and trace are not judged"
)


def is_result(folder: Path) -> bool:
    """Whether a folder has the files of an endpoints result."""
    if (folder / SUMMARY).is_file():
        return True
    return (folder / ACCURACY).is_file() and (folder / CONFIG).is_file()


def checks(folder: Path, rules: Rules) -> list[Check]:
    """The checks of an endpoints result in the folder of its scenario."""
    summary, why = files.attempt(files.json_object, folder / SUMMARY)
    accuracy, why_not = files.attempt(files.json_object, folder / ACCURACY)
    config, no_config = files.attempt(files.text, folder / CONFIG)
    faults = [fault for fault in (why, why_not, no_config) if fault]
    good = "config.yaml, result_summary.json and accuracy_results.json can be read"
    found = [
        judge("files-complete", faults, good, fix=_FIX),
        not_applicable("logs-say-nothing", _NO_LOADGEN),
    ]
    if summary is not None:
        found += _of_summary(summary)
    if config is not None:
        found += _of_config(config, rules)
    if accuracy is not None:
        found.append(_accuracy(accuracy))
    return found


def figure(folder: Path) -> str:
    """The completed queries a second of a result, with their unit; empty if it has none."""
    summary, _ = files.attempt(files.json_object, folder / SUMMARY)
    value = _number(summary or {}, "qps")
    return "" if value is None else f"{value:g} queries/s"


def _of_summary(summary: dict[str, Any]) -> list[Check]:
    return [
        judge("performance-errors", _failed(summary), "no query failed", file=SUMMARY, fix=_FIX),
        judge(
            "counts", _counts(summary), "counts, duration and rate agree", file=SUMMARY, fix=_FIX
        ),
        judge("latencies", _latencies(summary), "each is in order", file=SUMMARY, fix=_FIX),
    ]


def _failed(summary: dict[str, Any]) -> Iterator[Fault]:
    failed = _number(summary, "n_samples_failed")
    if failed != 0:
        yield mismatch("n_samples_failed", failed, 0)


def _counts(summary: dict[str, Any]) -> Iterator[Fault]:
    keys = ("n_samples_issued", "n_samples_completed", "n_samples_failed", "duration_ns", "qps")
    values = [_number(summary, key) for key in keys]
    for key, value in zip(keys, values, strict=True):
        if value is None:
            yield mismatch(key, value, "a number", "it must be")
    if None in values:
        return
    issued, completed, failed, duration_ns, rate = (value or 0 for value in values)
    if issued != completed + failed:
        yield mismatch("n_samples_issued", issued, completed + failed, "completed and failed are")
    if duration_ns > 0 and not close(rate, completed / duration_ns * 1e9, _RATE_DIGITS):
        yield mismatch("qps", rate, completed / duration_ns * 1e9, "count and duration give")


def _latencies(summary: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each kind of latency whose minimum, mean and maximum are not in order,
    and one if all latencies of the first token are 0.
    """
    for kind in _LATENCIES:
        row = summary.get(kind)
        if not isinstance(row, dict):
            continue
        low, mean, high = (_number(row, key) for key in ("min", "avg", "max"))
        if low is None or mean is None or high is None or not low <= mean <= high:
            yield f"{kind}: min {low}, avg {mean} and max {high} are not in order"
        elif kind == "ttft" and high == 0:
            yield "every latency of the first token is 0"


def _of_config(config: str, rules: Rules) -> list[Check]:
    least_ms = rules.scenarios["Offline"].min_duration_ms
    seeds = []
    for key, seed in _SEEDS.items():
        value = _setting(config, key)
        if value != rules.seeds[seed]:
            seeds.append(mismatch(key, value, rules.seeds[seed], f"{rules.round} has"))
    duration_ms = _setting(config, "min_duration_ms")
    short = []
    if duration_ms is None or duration_ms < least_ms:
        short.append(mismatch("min_duration_ms", duration_ms, least_ms, f"{rules.round} has"))
    good = f"the seeds of {rules.round}"
    return [
        judge("performance-seeds", seeds, good, file=CONFIG, fix=_FIX),
        judge("minimum-duration-setting", short, f"{duration_ms} ms", file=CONFIG, fix=_FIX),
    ]


def _accuracy(accuracy: dict[str, Any]) -> Check:
    scores = accuracy.get("accuracy_scores")
    values = []
    if not isinstance(scores, list):
        scores = []
    for row in scores:
        if isinstance(row, dict) and _number(row, "score") is not None:
            values.append(row["score"])
    faults = [] if values else ["accuracy_scores has no score"]
    return judge("accuracy-target", faults, f"{values[:5]}", file=ACCURACY, fix=_FIX)


def _number(row: dict[str, Any], key: str) -> float | None:
    value = row.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None


def _setting(config: str, key: str) -> int | None:
    """The whole number of a key, at any depth of the YAML text; None if there is none."""
    match = re.search(rf"^\s*{key}:\s*(\d{{1,20}})\s*(?:#.*)?$", config, re.MULTILINE)
    return int(match[1]) if match else None
