"""A section on the model's products, compared with a large product of the same framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from harness.comparison import tables
from harness.comparison.tables import Group
from harness.figure import short
from harness.messages import Finding, SectionNote
from harness.report.comparison import Comparison
from harness.report.content import Content
from harness.report.products import Products, fastest_first, meaning
from harness.report.section import Row, Section, Table
from harness.summary import flops, matrix_products, share
from sut.registry import framework_of

_COLUMNS = ("SUT", "the model's products", "share", "a large product", "operators a batch")


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
        sentences += meaning(precision, of_one)
    return sentences


def _places(groups: Iterable[Group]) -> dict[_Place, dict[str, Products]]:
    """Return place → framework → its products."""
    places: dict[_Place, dict[str, Products]] = {}
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
                products = of_one.setdefault(framework, Products())
                products.add(rate, matrix_products(run.result), machine)
    return places


def _rates(of_one: Mapping[str, Products]) -> list[str]:
    """Return `PyTorch 184 GFLOP/s (MKL, AVX2, 2 threads)` for each framework, the fastest first."""
    is_known = any(products.libraries for products in of_one.values())
    texts = []
    for name, products in fastest_first(of_one):
        libraries = " or ".join(dict.fromkeys(products.libraries)) or "library not reported"
        remark = f" ({libraries})" if is_known else ""
        texts.append(f"{name} {products.rate / 1e9:,.0f} GFLOP/s{remark}")
    return texts
