"""A section with all numbers of each comparison side by side: speed, latency, memory, compiling."""

from __future__ import annotations

from typing import Any

from harness.comparison import tables
from harness.report.comparison import Comparison
from harness.report.content import Content
from harness.report.section import Row, Section, Table
from results.figure import short

_ERROR = "share of the limit"
_MEDIAN = "latency_p50_ms"
_COLUMNS = {
    "50th percentile, ms": (_MEDIAN, 1.0),
    "90th percentile, ms": ("latency_p90_ms", 1.0),
    "99th percentile, ms": ("latency_p99_ms", 1.0),
    "answered/s": ("achieved_per_second", 1.0),
    "within the limits/s": ("goodput_per_second", 1.0),
    "requests a batch": ("requests_a_batch", 1.0),
    "tokens/s": ("tokens_per_second", 1.0),
    "ms/step": ("ms_per_step", 1.0),
    "loading, s": ("load_seconds", 1.0),
    "first answer, s": ("first_answer_seconds", 1.0),
    "first answer from cache, s": ("cached_first_answer_seconds", 1.0),
    "compiling, s": ("compile_seconds", 1.0),
    "compiling from cache, s": ("cached_compile_seconds", 1.0),
    "memory, GB": ("peak_host_bytes", 1e-9),
    "device memory, GB": ("peak_device_bytes", 1e-9),
    "error, % of limit": (_ERROR, 100.0),
}
"""Heading → (column of `harness.comparison.tables` or _ERROR, factor). A column without a value is
left out.
"""


def section(content: Content) -> Section:
    """A table for each comparison with several figures."""
    drawn = [_table(comparison) for comparison in content.with_rivals]
    return Section(
        title="All numbers",
        note=(
            "The first number is the figure by which SUTs are compared. A click on a heading"
            " sorts. Memory is that of the process that runs the model. The error is the distance"
            " of the answers from those of PyTorch in float32."
        ),
        tables=drawn,
    )


def _table(comparison: Comparison) -> Table:
    rows = []
    for group in comparison.ordered:
        rows.append(_shown(group) | {"figure": comparison.entries[group.sut].figure})
    names = [name for name, (column, _) in _COLUMNS.items() if any(row[column] for row in rows)]
    figure = comparison.unit
    if all(g.metric and g.metric.name == "latency_p50" for g in comparison.good):
        names = [name for name in names if _COLUMNS[name][0] != _MEDIAN]
        figure = "median, ms"
    columns = ("SUT", figure, "lowest to highest", "runs", *names)
    return Table(
        title=comparison.name,
        columns=columns,
        numbers=range(1, len(columns)),
        groups={"": [_row(row, names) for row in rows]},
        sorts=True,
        in_markdown=False,
    )


def _shown(group: tables.Group) -> dict[str, Any]:
    """The row with the error of the answers, as a share of its limit. The SUT's name has the batch
    size that ran, if a switch changed the requested one.
    """
    row = tables.row(group)
    if group.cell.requested_batch is not None:
        row["sut"] += f", batch {group.cell.batch_size}"
    limit = row["accuracy_limit"]
    share = float(f"{row['accuracy'] / limit:.2g}") if limit else None
    return row | {_ERROR: share}


def _row(row: dict[str, Any], names: list[str]) -> Row:
    figures = row["figures"]
    spread = f"{short(min(figures))} to {short(max(figures))}" if len(figures) > 1 else "–"
    texts = [row["sut"], short(row["figure"]), spread, str(len(figures))]
    for name in names:
        column, factor = _COLUMNS[name]
        texts.append("–" if row[column] is None else short(factor * row[column]))
    return texts
