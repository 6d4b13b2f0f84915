"""A section on how much of the machine's speed each SUT uses, compared with its framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import median

from formats.work import Roof
from harness.comparison.tables import Group
from harness.report.comparison import Comparison
from harness.report.content import Content
from harness.report.products import Products, fastest_first, meaning
from harness.report.section import Roofline, Section
from results.summary import matrix_products
from sut.registry import framework_of

_Place = tuple[str, ...]
"""Precision, device, machine and environment variables."""


def section(content: Content) -> Section:
    """A picture of each comparison whose SUTs have limits and counted operations, and sentences on
    the products of the frameworks.
    """
    return Section(
        title="How much of what its framework can do",
        note=(
            "A line is what a framework reaches on this machine: on the left it reads memory at its"
            " full bandwidth, on the right it multiplies matrices at its full rate. A dot is a SUT."
            " If it is far below its line, the time goes to small operations, to padding or to"
            " Python."
        ),
        sentences=product_sentences(content.current),
        pictures=[each for c in content.comparisons for each in _roofline(c)],
    )


def _roofline(comparison: Comparison) -> Iterator[Roofline]:
    """Yield the picture of a comparison, if its operations are counted.

    A roof is the median over the SUTs of a framework.
    """
    found: dict[str, list[Roof]] = {}
    dots = {}
    for group in comparison.good:
        record = group.last.record
        intensity, rate = group.numbers["flops_per_byte"], group.numbers["flops_per_second"]
        if intensity and rate:
            dots[group.sut] = (intensity, rate)
        if record and record.roof and "flops_per_byte" in group.last.result.metrics:
            found.setdefault(framework_of(group.cell.sut), []).append(record.roof)
    roofs = {}
    for framework, measured in found.items():
        flops_per_second = median(roof.matrix_flops for roof in measured)
        bytes_per_second = median(roof.read_bytes_per_second for roof in measured)
        roofs[framework] = (flops_per_second, bytes_per_second)
    if roofs:
        yield Roofline(caption=comparison.name, dots=dots, roofs=roofs)


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
