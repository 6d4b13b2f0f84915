"""The table of how fast SUTs do the model's own work, beside what their frameworks can do. The page and Markdown show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from harness.comparison import tables
from harness.report.contest import Contest
from harness.summary import flops, share

COLUMNS = ("SUT", "the model's products", "share", "a large product")
WORDS = (
    "Operations a second of the model's products with weights, beside those of a large matrix product of the same framework (of TensorFlow "
    "without XLA) in the same process. The share is a lower bound: attention's own products and padding are not counted. The rest of the "
    "time goes to these, to reading weights (as in a model that generates a token at a time), to small operations and to Python. In one "
    "comparison the same operations are counted for every SUT."
)


def table(contests: Iterable[Contest]) -> Iterator[tuple[Contest, list[list[str]]]]:
    """The contests with a row of texts in `COLUMNS` for each SUT whose results tell the share, the fastest first."""
    for contest in contests:
        if rows := _rows(contest):
            yield contest, [_texts(row) for row in rows]


def sentence(contest: Contest) -> list[str]:
    """One sentence with the share of each SUT, the largest first. None if fewer than two tell it."""
    rows = sorted(_rows(contest), key=itemgetter("matrix_share"), reverse=True)
    if len(rows) < 2:
        return []
    return [
        "the model's products reach, of the rate of a large matrix product of the same framework, at least: "
        + ", ".join(f"{row['sut']} {share(row['matrix_share'])}" for row in rows)
    ]


def _rows(contest: Contest) -> list[dict[str, Any]]:
    return [row for row in map(tables.row, contest.good) if row["matrix_share"]]


def _texts(row: dict[str, Any]) -> list[str]:
    reached, part = row["flops_per_second"], row["matrix_share"]
    return [row["sut"], flops(reached), share(part), flops(reached / part)]
