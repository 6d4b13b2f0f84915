"""Sentences on what SUTs take beside time for a sample, of one comparison: memory, and seconds of compiling. The least comes first."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from harness.comparison import tables
from harness.report.contest import Contest


def sentences(contest: Contest) -> list[str]:
    """A sentence on memory and one on compiling. There is no sentence for a figure that fewer than two SUTs have."""
    rows = [tables.row(group) for group in contest.good]
    told = {
        "memory on the accelerator, at most": _least(rows, "peak_device_bytes", 1e-9, "GB"),
        "memory of the worker, at most": _least(rows, "peak_host_bytes", 1e-9, "GB"),
        "compiling takes": _least(rows, "compile_seconds", 1.0, "s"),
    }
    return [f"{what}: {', '.join(each)}" for what, each in told.items() if len(each) > 1]


def _least(rows: list[dict[str, Any]], column: str, factor: float, unit: str) -> list[str]:
    known = sorted((row for row in rows if row[column]), key=itemgetter(column))
    return [f"{row['sut']} {factor * row[column]:.1f} {unit}" for row in known]
