"""Sentences on how fast the frameworks multiply large matrices, by which libraries, and what a
difference means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from formats.record import Machine
from harness.comparison.tables import Group
from harness.report.comparison import listed
from harness.report.content import Content
from harness.report.section import Section
from results.summary import library, matrix_products
from sut.evidence.matrix_library import UNKNOWN, unused_avx512
from sut.registry import framework_of

CLEARLY = 1.2
"""Times as fast. Smaller differences give no sentence."""
_Place = tuple[str, ...]
"""Precision, device, machine and environment variables."""


@dataclass
class Products:
    """How one framework multiplied matrices in one place.

    Attributes:
        rates: floating-point operations a second of a large product, of each run.
        libraries: the library with instructions and threads, in words, of each run that names it.
        narrow: the instructions that MKL used, if an AMD processor has wider ones; otherwise empty.
        ways: name of another way to multiply in the same process → how many times as fast it is,
            in each process.
    """

    rates: list[float] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    narrow: str = ""
    ways: dict[str, list[float]] = field(default_factory=dict)

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


def meaning(precision: str, of_one: Mapping[str, Products]) -> Iterator[str]:
    """Yield a sentence on each framework whose MKL leaves instructions unused, if other frameworks
    or other libraries of the same framework are faster.
    """
    for name, products in of_one.items():
        faster = {}
        for other, others in fastest_first(of_one):
            if others.rate > CLEARLY * products.rate and not others.narrow:
                faster[other] = f"{others.rate / products.rate:.1f}"
        for way, times in products.ways.items():
            if median(times) > CLEARLY:
                faster[f"{way} in the same process"] = f"{median(times):.1f}"
        if products.narrow and faster:
            multiply = "multiply" if len(faster) > 1 else "multiplies"
            yield (
                f"{name} multiplies {precision} matrices with MKL, which takes its"
                f" {products.narrow} path on this AMD processor although it has AVX-512;"
                f" {listed(list(faster))} {multiply} {listed(list(faster.values()))} times as"
                f" fast, so {name}'s figures here say little about an Intel processor"
            )


def fastest_first(of_one: Mapping[str, Products]) -> list[tuple[str, Products]]:
    """Return (name, products) of each framework, the fastest first."""
    return sorted(of_one.items(), key=lambda item: (item[1].rate, item[0]), reverse=True)


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
            result = run.result
            rate = result.seen.matrix_flops if result.seen else None
            if framework and rate:
                of_one = places.setdefault(place, {})
                products = of_one.setdefault(framework, Products())
                products.add(rate, matrix_products(result), machine)
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
