"""The table of trainings, as the page and Markdown show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from harness.comparison import tables
from harness.figure import short
from harness.report.contest import Contest, range_of
from sut.registry import FIT

COLUMNS = (
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
WORDS = (
    "A step is one batch: forward, backward and update. Two steps come first and are not timed; the first of them builds and compiles. "
    "Single steps are told only where the framework does not run ahead of its device. The loss error is the largest difference of a step's "
    "loss from the float32 reference's, in standard deviations of the reference's losses."
)


def table(contests: Iterable[Contest]) -> Iterator[tuple[Contest, list[list[str]]]]:
    """The contests of trainings, each with a row of texts in `COLUMNS` for those that have figures, the fastest first."""
    for contest in contests:
        if contest.groups[0].cell.task == FIT and contest.good:
            yield contest, [_texts(row) for row in sorted(map(tables.row, contest.good), key=itemgetter("figure"))]


def _texts(row: dict[str, Any]) -> list[str]:
    seen, judged = row["step_median_ms"] is not None, row["accuracy"] is not None
    return [
        row["sut"],
        short(row["figure"]),
        range_of(row["low"], row["high"]),
        f"{short(row['step_median_ms'])}, {short(row['step_p90_ms'])}" if seen else "",
        f"{short(row['first_step_seconds'])} s",
        short(row["samples_per_second"]),
        short(row["tokens_per_second"]),
        f"{row['trained_parameters']:,.0f}" if row["trained_parameters"] else "",
        f"{row['accuracy']:.2g} ({row['accuracy_limit']:.2g})" if judged else "not judged",
        "" if row["first_loss_error"] is None else f"{row['first_loss_error']:.2g}",
    ]
