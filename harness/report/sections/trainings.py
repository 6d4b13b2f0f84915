"""A section with the table of trainings."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from harness.comparison import tables
from harness.report.comparison import range_of
from harness.report.content import Content
from harness.report.section import Row, Section, Table
from results.figure import short
from sut.registry import FIT

_COLUMNS = (
    "SUT",
    "a step, ms",
    "95 % between runs",
    "single steps: median, 90th percentile",
    "first step",
    "samples/s",
    "tokens/s",
    "trained parameters",
    "loss error (limit)",
    "of the first loss",
)


def section(content: Content) -> Section:
    """A row for each training that has a figure, the fastest of each comparison first."""
    groups: dict[str, list[Row]] = {}
    for comparison in content.comparisons:
        if comparison.groups[0].cell.task == FIT and comparison.good:
            rows = sorted(map(tables.row, comparison.good), key=itemgetter("figure"))
            groups[comparison.name] = [_row(row) for row in rows]
    table = Table(
        columns=_COLUMNS,
        numbers=range(1, len(_COLUMNS)),
        groups=groups,
        note=(
            "A step is one batch: forward, backward and update. Two steps come first and are not"
            " timed; the first of them builds and compiles. Times of single steps are shown only"
            " if the framework does not run ahead of its device. The loss error is the largest"
            " difference of a step's loss from the float32 reference's, in standard deviations of"
            " the reference's losses."
        ),
        most=1000,
    )
    return Section(title="Trainings", tables=[table])


def _row(row: dict[str, Any]) -> Row:
    steps, parameters, loss, first_loss = "", "", "not judged", ""
    if row["step_median_ms"] is not None:
        steps = f"{short(row['step_median_ms'])}, {short(row['step_p90_ms'])}"
    if row["trained_parameters"]:
        parameters = f"{row['trained_parameters']:,.0f}"
    if row["accuracy"] is not None:
        loss = f"{row['accuracy']:.2g} ({row['accuracy_limit']:.2g})"
    if row["first_loss_error"] is not None:
        first_loss = f"{row['first_loss_error']:.2g}"
    return (
        row["sut"],
        short(row["figure"]),
        range_of(row["low"], row["high"]),
        steps,
        f"{short(row['first_step_seconds'])} s",
        short(row["samples_per_second"]),
        short(row["tokens_per_second"]),
        parameters,
        loss,
        first_loss,
    )
