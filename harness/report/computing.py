"""The table of how fast SUTs do the model's own work, beside what their frameworks can do. The page and Markdown show it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from statistics import median
from typing import Any

from harness.comparison import tables
from harness.comparison.tables import Group
from harness.figure import short
from harness.report.contest import Contest, listed
from harness.summary import flops, library, matrix_products, share
from sut.matrix_library import UNKNOWN, unused_avx512
from sut.registry import framework_of

COLUMNS = ("SUT", "the model's products", "share", "a large product", "operators a batch")
WORDS = (
    "Operations a second of the model's products with weights, beside those of a large matrix product of the same framework (of TensorFlow "
    "without XLA) in the same process. The share is a lower bound: attention's own products and padding are not counted. The rest of the "
    "time goes to these, to reading weights (as in a model that generates a token at a time), to small operations and to Python. In one "
    "comparison the same operations are counted for every SUT. The last column counts the operators that Python calls for a batch of "
    "an eager SUT."
)


_CLEARLY = 1.2  # times as fast: a smaller difference is no reason to warn


@dataclass
class _Products:
    """How one framework multiplied matrices in one place.

    Attributes:
        rates: floating-point operations a second of a large product, of each run.
        libraries: the library with instructions and threads, in words, of each run that names it.
        narrow: whether MKL took narrower instructions than an AMD processor has.
    """

    rates: list[float] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    narrow: str = ""

    @property
    def rate(self) -> float:
        """The median."""
        return median(self.rates)


_Place = tuple[str, ...]
"""Precision, device, machine and environment variables."""


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


def product_sentences(groups: Iterable[Group]) -> list[str]:
    """Return for each place with two frameworks or more how fast each multiplied large matrices, and by which library.

    A place is a precision, a device, a machine and environment variables. One more sentence follows if MKL took narrower instructions
    than an AMD processor has.
    """
    places = {place: of_one for place, of_one in _places(groups).items() if len(of_one) > 1}
    sentences = []
    for (precision, device, *where), of_one in sorted(places.items()):
        apart = f", {', '.join(filter(None, where))}" if len(places) > 1 else ""
        sentences.append(
            f"large matrix products in {precision} on {device}{apart}: {', '.join(_rates(of_one))}; "
            "a model that spends its time in such products is about as much faster or slower"
        )
        sentences += _meaning(precision, of_one)
    return sentences


def _places(groups: Iterable[Group]) -> dict[_Place, dict[str, _Products]]:
    """Place → framework → how it multiplied."""
    places: dict[_Place, dict[str, _Products]] = {}
    for group in groups:
        cell, framework = group.cell, framework_of(group.cell.sut)
        variables = (f"{name}={value}" for name, value in sorted(cell.variables.items()))
        place = (cell.precision, cell.device, group.last.machine, *variables)
        for run in group.good:
            rate = run.result.evidence.get("after", {}).get("matrix_flops")
            if framework and rate:
                products = places.setdefault(place, {}).setdefault(framework, _Products())
                products.rates.append(rate)
                told = matrix_products(run.result)
                if told.get("library", UNKNOWN) != UNKNOWN:
                    products.libraries.append(library(told))
                record = group.last.record
                unused = unused_avx512(told, record.machine.cpu, record.machine.cpu_flags) if record else ""
                products.narrow = products.narrow or unused
    return places


def _rates(of_one: Mapping[str, _Products]) -> list[str]:
    """`PyTorch 184 GFLOP/s (MKL, AVX2, 2 threads)` of each framework, the fastest first; the median of its runs."""
    fastest_first = sorted(of_one.items(), key=lambda item: (item[1].rate, item[0]), reverse=True)
    told = any(products.libraries for products in of_one.values())
    return [f"{name} {products.rate / 1e9:,.0f} GFLOP/s{_libraries(products) if told else ''}" for name, products in fastest_first]


def _libraries(products: _Products) -> str:
    return f" ({' or '.join(dict.fromkeys(products.libraries)) or 'library not reported'})"


def _meaning(precision: str, of_one: Mapping[str, _Products]) -> Iterator[str]:
    """One sentence on each framework whose MKL leaves instructions of an AMD processor unused and that others outrun."""
    for name, products in of_one.items():
        by_rate = sorted(of_one.items(), key=lambda item: -item[1].rate)
        faster = {other: p.rate / products.rate for other, p in by_rate if p.rate > _CLEARLY * products.rate and not p.narrow}
        if products.narrow and faster:
            ratios = listed([f"{ratio:.1f}" for ratio in faster.values()])
            multiply = "multiply" if len(faster) > 1 else "multiplies"
            yield (
                f"{name} multiplies {precision} matrices with MKL, which takes its {products.narrow} path on this AMD processor although "
                f"it has AVX-512; {listed(list(faster))} {multiply} {ratios} times as fast, so {name}'s figures here say little about "
                "an Intel processor"
            )
