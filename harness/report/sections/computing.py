"""Sentences on how fast the frameworks multiply large matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.comparison.tables import Group
from harness.report.content import Content
from harness.report.products import Products, fastest_first, meaning
from harness.report.section import Section
from results.summary import matrix_products
from sut.registry import framework_of

_Place = tuple[str, ...]
"""Precision, device, machine and environment variables."""


def section(content: Content) -> Section:
    """Sentences on the products of the frameworks."""
    return Section(sentences=product_sentences(content.current))


def product_sentences(groups: Iterable[Group]) -> list[str]:
    """Return how fast each framework multiplied large matrices, and by which library.

    There is a sentence for each place with two frameworks or more. A place is a precision, a
    device, a machine, environment variables and threads. One more sentence follows if MKL took
    narrower instructions than an AMD processor has.
    """
    several = {}
    for place, of_one in _places(groups).items():
        if len(of_one) > 1:
            several[place] = of_one
    machines = {machine for _, _, machine, *_ in several}
    sentences = []
    for (precision, device, machine, *where), of_one in sorted(several.items()):
        if len(machines) > 1:
            where.insert(0, machine)
        apart = "".join(f", {text}" for text in filter(None, where))
        rates = ", ".join(_rates(of_one))
        sentences.append(
            f"large matrix products in {precision} on {device}{apart}: {rates}; a model that"
            " spends its time in such products is about as much faster or slower"
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
        if cell.threads:
            variables.append(f"threads {cell.threads}")
        place = (cell.precision, cell.device, group.last.machine, *variables)
        record = group.last.record
        machine = record.machine if record else None
        for run in group.good:
            rate = run.result.seen.matrix_flops if run.result.seen else None
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
