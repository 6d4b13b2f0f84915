"""A section on the model's products, compared with a large product of the same framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from statistics import median
from typing import Any

from formats.record import Machine
from harness.comparison import tables
from harness.comparison.tables import Group
from harness.figure import short
from harness.messages import Finding, SectionNote
from harness.report.comparison import Comparison, listed
from harness.report.content import Content
from harness.report.section import Row, Section, Table
from harness.summary import flops, library, matrix_products, share
from sut.evidence.matrix_library import UNKNOWN, unused_avx512
from sut.registry import framework_of

_COLUMNS = ("SUT", "the model's products", "share", "a large product", "operators a batch")
_CLEARLY = 1.2  # times as fast; smaller differences give no warning


@dataclass
class _Products:
    """How one framework multiplied matrices in one place.

    Attributes:
        rates: floating-point operations a second of a large product, of each run.
        libraries: the library with instructions and threads, in words, of each run that names it.
        narrow: the instructions that MKL used, if an AMD processor has wider ones; otherwise empty.
    """

    rates: list[float] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    narrow: str = ""

    @property
    def rate(self) -> float:
        """The median of the rates."""
        return median(self.rates)

    def add(self, rate: float, fact: Mapping[str, Any], machine: Machine | None) -> None:
        """Add one run: its rate, the evidence of its library, and the machine it ran on."""
        self.rates.append(rate)
        if fact.get("library", UNKNOWN) == UNKNOWN:
            return
        self.libraries.append(library(fact))
        if machine and not self.narrow:
            self.narrow = unused_avx512(fact, machine.cpu, machine.cpu_flags)


_Place = tuple[str, ...]
"""Precision, device, machine and environment variables."""


def section(content: Content) -> Section:
    """The shares of all comparisons in a table. A single comparison also has sentences."""
    own = []
    if len(content.with_rivals) == 1:
        own = _sentences(content.with_rivals[0])
    groups = {}
    for comparison in content.comparisons:
        rows = [_texts(row) for row in _rows(comparison, "matrix_share")]
        if rows:
            groups[comparison.name] = rows
    table = Table(columns=_COLUMNS, numbers=range(1, len(_COLUMNS)), groups=groups, most=200)
    return Section(
        title="How much of what its framework can do",
        note=SectionNote.MATRIX_SHARE,
        sentences=[*own, *product_sentences(content.current)],
        tables=[table],
    )


def _sentences(comparison: Comparison) -> list[str]:
    """Return one sentence with the share of each SUT, the largest first, and one with the operators
    of eager SUTs.

    There is no sentence for a figure that fewer than two SUTs have.
    """
    shares = _rows(comparison, "matrix_share")
    shares.sort(key=itemgetter("matrix_share"), reverse=True)
    operators = _rows(comparison, "operators_per_batch")
    operators.sort(key=itemgetter("operators_per_batch"))
    sentences = []
    if len(shares) > 1:
        each = [f"{row['sut']} {share(row['matrix_share'])}" for row in shares]
        sentences.append(Finding.MATRIX_SHARES.format(shares=", ".join(each)))
    if len(operators) > 1:
        each = [f"{row['sut']} {short(row['operators_per_batch'])}" for row in operators]
        sentences.append(Finding.OPERATORS.format(numbers=", ".join(each)))
    return sentences


def _rows(comparison: Comparison, column: str) -> list[dict[str, Any]]:
    rows = [tables.row(group) for group in comparison.good]
    return [row for row in rows if row[column]]


def _texts(row: dict[str, Any]) -> Row:
    reached = row["flops_per_second"]
    part = row["matrix_share"]
    operators = short(row["operators_per_batch"]) or "–"
    return row["sut"], flops(reached), share(part), flops(reached / part), operators


def product_sentences(groups: Iterable[Group]) -> list[str]:
    """Return how fast each framework multiplied large matrices, and by which library.

    There is a sentence for each place with two frameworks or more. A place is a precision, a
    device, a machine and environment variables. One more sentence follows if MKL took narrower
    instructions than an AMD processor has.
    """
    several = {}
    for place, of_one in _places(groups).items():
        if len(of_one) > 1:
            several[place] = of_one
    sentences = []
    for (precision, device, *where), of_one in sorted(several.items()):
        apart = ""
        if len(several) > 1:
            apart = f", {', '.join(filter(None, where))}"
        rates = ", ".join(_rates(of_one))
        sentences.append(
            Finding.MATRIX_PRODUCTS.format(
                precision=precision, device=device, apart=apart, rates=rates
            )
        )
        sentences += _meaning(precision, of_one)
    return sentences


def _places(groups: Iterable[Group]) -> dict[_Place, dict[str, _Products]]:
    """Return place → framework → its products."""
    places: dict[_Place, dict[str, _Products]] = {}
    for group in groups:
        cell = group.cell
        framework = framework_of(cell.sut)
        variables = [f"{name}={value}" for name, value in sorted(cell.variables.items())]
        place = (cell.precision, cell.device, group.last.machine, *variables)
        record = group.last.record
        machine = record.machine if record else None
        for run in group.good:
            rate = run.result.evidence.get("after", {}).get("matrix_flops")
            if framework and rate:
                of_one = places.setdefault(place, {})
                products = of_one.setdefault(framework, _Products())
                products.add(rate, matrix_products(run.result), machine)
    return places


def _rates(of_one: Mapping[str, _Products]) -> list[str]:
    """Return `PyTorch 184 GFLOP/s (MKL, AVX2, 2 threads)` for each framework, the fastest first."""
    is_known = any(products.libraries for products in of_one.values())
    texts = []
    for name, products in _fastest_first(of_one):
        libraries = " or ".join(dict.fromkeys(products.libraries)) or "library not reported"
        remark = f" ({libraries})" if is_known else ""
        texts.append(f"{name} {products.rate / 1e9:,.0f} GFLOP/s{remark}")
    return texts


def _meaning(precision: str, of_one: Mapping[str, _Products]) -> Iterator[str]:
    """Yield a sentence on each framework whose MKL leaves instructions unused, if others are
    faster.
    """
    for name, products in of_one.items():
        faster = {}
        for other, others in _fastest_first(of_one):
            if others.rate > _CLEARLY * products.rate and not others.narrow:
                faster[other] = f"{others.rate / products.rate:.1f}"
        if products.narrow and faster:
            multiply = "multiply" if len(faster) > 1 else "multiplies"
            yield Finding.MKL_WITHOUT_AVX512.format(
                framework=name,
                precision=precision,
                path=products.narrow,
                others=f"{listed(list(faster))} {multiply}",
                times=listed(list(faster.values())),
            )


def _fastest_first(of_one: Mapping[str, _Products]) -> list[tuple[str, _Products]]:
    return sorted(of_one.items(), key=lambda item: (item[1].rate, item[0]), reverse=True)
