"""The table of how fast SUTs do the model's own work, beside what their frameworks can do. The page and Markdown show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from harness.comparison import tables
from harness.report.contest import Contest
from harness.summary import flops

COLUMNS = ("SUT", "the model's products", "share", "a large product", "all weights read once a token")
WORDS = (
    "Operations a second of the model's products with weights, beside those of a large matrix product of the same framework, which is "
    "measured after each run. Where the share is small, the time goes elsewhere: to reading weights (as in a model that generates a token "
    "at a time), to small operations, or to Python. Two SUTs with equal shares differ by how fast their frameworks multiply."
)


def table(contests: Iterable[Contest]) -> Iterator[tuple[Contest, list[list[str]]]]:
    """The contests with a row of texts in `COLUMNS` for each SUT whose results tell the share, the fastest first."""
    for contest in contests:
        if rows := _rows(contest):
            yield contest, [_texts(row) for row in rows]


def sentences(contests: Iterable[Contest]) -> list[str]:
    """One sentence with the share of each SUT, the largest first, if one contest alone has two or more. Else the table has them."""
    compared = [rows for contest in contests if len(rows := _rows(contest)) > 1]
    if len(compared) != 1:
        return []
    shares = [f"{row['sut']} {row['matrix_share']:.0%}" for row in sorted(compared[0], key=itemgetter("matrix_share"), reverse=True)]
    return [
        f"share of the rate of a large matrix product of the same framework: {', '.join(shares)}; the rest of the time goes to reading "
        "weights, to small operations and to Python"
    ]


def _rows(contest: Contest) -> list[dict[str, Any]]:
    return [row for row in map(tables.row, contest.good) if row["matrix_share"]]


def _texts(row: dict[str, Any]) -> list[str]:
    rate, share, read = row["flops_per_second"], row["matrix_share"], row["weight_bytes_per_second"]
    return [row["sut"], flops(rate), f"{share:.0%}", flops(rate / share), f"{read / 1e9:,.3g} GB/s" if read else ""]
