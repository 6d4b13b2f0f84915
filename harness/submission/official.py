"""The official metric of a run of `--benchmark`: its files in the run directory, and its values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compliance import logs, rules
from compliance.scoring import official
from compliance.scoring.official import Scored
from formats.record import Record

Score = Scored | str
"""The metric, or a sentence that says why it is not known."""


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write the files that the metric needs. `files`: name → content."""
    folder = directory / official.FOLDER
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def score(directory: Path, record: Record) -> Score | None:
    """The metric of the whole log of answers. None: the run is not of an official benchmark."""
    if record.official is None:
        return None
    answers = logs.read_accuracy(directory / "raw" / "accuracy" / "mlperf_log_accuracy.json")
    try:
        return official.score(directory, record.official, answers.payloads)
    except (OSError, ValueError) as e:
        return f"not scored: {e}"


def of_result(record: Record, accuracy_text: str) -> dict[str, Any]:
    """`Result.official`, from accuracy.txt. Empty if the run is not of an official benchmark."""
    if record.official is None:
        return {}
    of_round = rules.load(record.round)
    row = of_round.benchmarks[record.benchmark.official].of(record.cell.scenario)
    line = accuracy_text.partition("\n")[0]
    values = {}
    for name in (*row.accuracy, *row.accuracy_at_most):
        found = re.match(of_round.accuracy_patterns[name], line)
        if found:
            values[name] = float(found[1])
    beyond = list(official.beyond(values, row))
    return {
        "benchmark": record.benchmark.official,
        "values": values,
        "limits": dict(row.accuracy),
        "at_most": dict(row.accuracy_at_most),
        "line": line,
        "passed": not beyond,
        "closed": not record.official.not_closed,
        "lacks": list(record.official.lacks),
    }
