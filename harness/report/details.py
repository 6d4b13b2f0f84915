"""This module collects a report's details of one cell.

They are LoadGen's summary line by line, evidence, and the command that repeats the cell.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

from compliance.logs import files, read_summary
from harness import terminal
from harness.comparison import compare
from harness.comparison.tables import Group
from harness.samples import images, words
from results import summary

# Label of LoadGen's summary → its meaning. Labels without an entry are shown without a meaning.
_MEANING = {
    "SUT name": "the name that LoadGen's binding gives every SUT",
    "Scenario": (
        "how LoadGen issues queries: in Offline all samples at once, in SingleStream one after the"
        " other"
    ),
    "Mode": "PerformanceOnly measures speed; another process ran the accuracy test",
    "Samples per second": (
        "the figure of this scenario: all samples over the time until the last answer"
    ),
    "90.0th percentile latency (ns)": "nine of ten queries were answered within this time",
    "90th percentile latency (ns)": "nine of ten queries were answered within this time",
    "Result is": "LoadGen's verdict on duration and counts; it does not look at answers",
    "Min duration satisfied": "whether the test lasted at least min_duration",
    "Min queries satisfied": "whether min_query_count queries were issued",
    "Early stopping satisfied": "whether there were enough queries to be sure of the percentile",
    "Early Stopping Result": (
        "LoadGen's estimate of the percentile, and how many queries it needs"
    ),
    "WARNING": "a remark of LoadGen on its settings or the test; no verdict",
    "QPS w/ loadgen overhead": "queries a second, including the time that LoadGen itself took",
    "QPS w/o loadgen overhead": "queries a second, without the time that LoadGen itself took",
    "Min latency (ns)": (
        "the shortest time from a query's issue to its answer; in Offline all are issued at the"
        " start"
    ),
    "Max latency (ns)": "the longest one",
    "Mean latency (ns)": "their mean",
    "50.00 percentile latency (ns)": "half of the samples were answered within this time",
    "90.00 percentile latency (ns)": "nine of ten within this time",
    "95.00 percentile latency (ns)": "95 of 100 within this time",
    "97.00 percentile latency (ns)": "97 of 100 within this time",
    "99.00 percentile latency (ns)": "99 of 100 within this time",
    "99.90 percentile latency (ns)": "999 of 1000 within this time",
    "samples_per_query": "samples of one query: all of them in Offline, one in SingleStream",
    "target_qps": "the rate from the calibration, by which LoadGen sizes an Offline test",
    "target_latency (ns)": (
        "the latency from the calibration, by which LoadGen sizes a SingleStream test"
    ),
    "max_async_queries": "queries that may be open at a time",
    "min_duration (ms)": "a shorter test is INVALID",
    "max_duration (ms)": "0: no limit",
    "min_query_count": "fewer queries are INVALID",
    "max_query_count": "0: no limit",
    "qsl_rng_seed": "the round's seed that decides which samples are loaded",
    "sample_index_rng_seed": "the round's seed for the order of samples",
    "schedule_rng_seed": "the round's seed for times of arrival, which these scenarios do not use",
    "accuracy_log_rng_seed": "seed for answers that a performance test logs; 0: none",
    "accuracy_log_probability": "the share of answers that a performance test logs",
    "accuracy_log_sampling_target": "how many answers a performance test logs",
    "print_timestamps": "no effect on the figure",
    "performance_issue_unique": "a setting of the compliance test TEST04",
    "performance_issue_same": "a setting of the compliance test TEST04",
    "performance_issue_same_index": "a setting of the compliance test TEST04",
    "performance_sample_count": "distinct samples that were kept loaded",
    "accuracy_sample_count": "samples of the whole set, which the accuracy test issues",
}


def of(group: Group, shared: Collection[str]) -> dict[str, Any]:
    """The details of a cell, from its last run that is ok, by their names in page.html.

    Args:
        shared: fields of `Cell` that the whole page shares, which are not named.

    `command` repeats the cell, and is empty if it is not recorded. `lines` are those of the
    terminal, `evidence` is what the worker took after the test, and `summary` has (label, value,
    meaning) of each line of LoadGen's summary. `words` and `images` are the model's answers.
    """
    run = group.last
    result = run.result
    folder = Path(result.directory)
    directory = terminal.near(result.directory)
    read, _ = files.attempt(read_summary, folder / "raw/performance/mlperf_log_summary.txt")
    values = read.values if read else {}
    seen = vars(result.seen) if result.seen else {"detail": {}}
    evidence = {name: value for name, value in seen.items() if value is not None}
    evidence |= evidence.pop("detail")
    return {
        "group": group,
        "name": f"{group.sut}: {compare.describe(group, shared)}",
        "directory": directory,
        "command": run.record and run.record.command,
        "audit_command": f"./run.sh audit {shlex.quote(directory)} --html findings.html",
        "lines": [line for line in summary.rows(result) if line[0] != "directory"],
        "evidence": [(name.replace("_", " "), _plain(each)) for name, each in evidence.items()],
        "summary": [(label, text, _MEANING.get(label, "")) for label, text in values.items()],
        "words": words.read(folder),
        "images": [(shown.caption, jpeg) for shown, jpeg in images.read(folder)],
        "seeded": run.record and run.record.digests.weights_source == "seeded",
    }


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}: {v}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
