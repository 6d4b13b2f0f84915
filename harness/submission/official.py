"""The official metric of a run of `--benchmark`: its files in the run directory, and its values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from compliance import logs
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
