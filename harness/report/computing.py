"""The table of how fast SUTs do the model's own work, beside what their frameworks can do. The page and Markdown show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from harness.cell import short
from harness.comparison import tables
from harness.report.contest import Contest
from harness.summary import flops, share

COLUMNS = ("SUT", "the model's products", "share", "a large product", "operators a batch")
WORDS = (
    "Operations a second of the model's products with weights, beside those of a large matrix product of the same framework (of TensorFlow "
    "without XLA) in the same process. The share is a lower bound: attention's own products and padding are not counted. The rest of the "
    "time goes to these, to reading weights (as in a model that generates a token at a time), to small operations and to Python. In one "
    "comparison the same operations are counted for every SUT. The last column counts the operators that Python calls for a batch of "
    "an eager SUT."
)


def table(contests: Iterable[Contest]) -> Iterator[tuple[Contest, list[list[str]]]]:
    """The contests with a row of texts in `COLUMNS` for each SUT whose results tell the share, the fastest first."""
    for contest in contests:
        if rows := _rows(contest, "matrix_share"):
            yield contest, [_texts(row) for row in rows]


def sentences(contest: Contest) -> list[str]:
    """One sentence with the share of each SUT, the largest first, and one with the operators of those that are eager.

    There is no sentence for a figure that fewer than two SUTs have.
    """
    shares = sorted(_rows(contest, "matrix_share"), key=itemgetter("matrix_share"), reverse=True)
    operators = sorted(_rows(contest, "operators_per_batch"), key=itemgetter("operators_per_batch"))
    texts = {
        "the model's products reach, of the rate of a large matrix product of the same framework, at least": [
            f"{row['sut']} {share(row['matrix_share'])}" for row in shares
        ],
        "Python calls operators for a batch of eager SUTs": [f"{row['sut']} {short(row['operators_per_batch'])}" for row in operators],
    }
    return [f"{what}: {', '.join(told)}" for what, told in texts.items() if len(told) > 1]


def _rows(contest: Contest, told: str) -> list[dict[str, Any]]:
    return [row for row in map(tables.row, contest.good) if row[told]]


def _texts(row: dict[str, Any]) -> list[str]:
    reached, part = row["flops_per_second"], row["matrix_share"]
    return [row["sut"], flops(reached), share(part), flops(reached / part), short(row["operators_per_batch"]) or "–"]
