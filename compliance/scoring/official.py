"""The official metric of a benchmark: what its own script computes from a run's answers.

A run of `--benchmark` keeps the files that the metric needs in FOLDER of its run directory. A new
metric is a module and its line in METRICS.
"""

from __future__ import annotations

import hashlib
import importlib
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from compliance.logs import files
from compliance.rules import Benchmark
from compliance.scoring.value import AnswerBytes, Numbers
from compliance.scoring.value import Scored as Scored
from formats.record import Official

FOLDER = "benchmark"
"""The folder of the files in a run directory."""
METRICS = {
    "imagenet": "compliance.scoring.imagenet",
    "squad": "compliance.scoring.squad.scored",
    "summaries": "compliance.scoring.summaries.scored",
}
"""Name of a metric in the rules of a round → its module. The module has `score`: (name of a file →
its content, index in the query sample library → payload bytes) → `Scored`. It raises ValueError
with one sentence if the metric cannot be computed.
"""
_MOST_LOST = 0.1
"""The share that other answers may lose of what the compared answers add to the metric."""


def score(run: Path, official: Official, answers: AnswerBytes) -> Scored:
    """The metric of the answers of a run directory.

    Args:
        answers: index in the query sample library → payload bytes.

    Raises OSError, and ValueError with one sentence if it cannot be computed.
    """
    metric = official.metric
    if metric not in METRICS:
        raise ValueError(f"there is no metric {metric}; there are {', '.join(METRICS)}")
    contents = {}
    for name, md5 in official.files.items():
        if Path(name).name != name:
            raise ValueError(f"{name} is not the name of a file")
        content = files.whole_bytes(run / FOLDER / name)
        if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
            raise ValueError(f"{FOLDER}/{name} is not the file of the run: its md5 is not {md5}")
        contents[name] = content
    scored: Scored = importlib.import_module(METRICS[metric]).score(contents, answers)
    return scored


def beyond(values: Numbers, row: Benchmark) -> Iterator[str]:
    """Yield a sentence for each limit of a benchmark that the values do not meet."""
    for name, limit in row.accuracy.items():
        if not values.get(name, -math.inf) >= limit:
            yield f"{name} is {_number(values, name)}, and at least {limit} is required"
    for name, limit in row.accuracy_at_most.items():
        if not values.get(name, math.inf) <= limit:
            yield f"{name} is {_number(values, name)}, and at most {limit} is allowed"


def with_others(
    run: Path,
    official: Official,
    row: Benchmark,
    answers: AnswerBytes,
    changes: Iterable[Mapping[int, bytes]],
    compared: int,
) -> tuple[bool, str]:
    """(whether the metric stays within its limits with other answers to some samples, the metric).

    The metric must reach the target of the benchmark, if the run may enter the closed division. It
    must not be far below the accuracy test's metric (`_MOST_LOST`).

    Args:
        answers: the accuracy test's, as in `score`.
        changes: sets of other answers, which are put in one set at a time.
        compared: the number of answers of which these are the ones that differ.

    Raises OSError, and ValueError with one sentence if it cannot be computed.
    """
    limits = row
    if official.not_closed:
        limits = replace(row, accuracy={}, accuracy_at_most={})
    own = score(run, official, answers).values
    kept = 1 - _MOST_LOST * min(1.0, compared / len(answers))
    least = {name: max(limits.accuracy.get(name, 0.0), kept * own[name]) for name in row.accuracy}
    limits = replace(limits, accuracy=least)
    line = ""
    for changed in changes:
        scored = score(run, official, {**answers, **changed})
        line = scored.line()
        faults = list(beyond(scored.values, limits))
        if faults:
            return False, faults[0]
    return True, line


def _number(values: Numbers, name: str) -> str:
    return f"{values[name]:.7g}" if name in values else "not known"
