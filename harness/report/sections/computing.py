"""Sentences on how fast the frameworks multiply large matrices, by which libraries, and what a
difference means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from formats.record import Machine
from harness.comparison.collected import collected
from harness.comparison.compare import variables
from harness.comparison.runs import Run, kind_words
from harness.comparison.tables import Group
from harness.report.comparison import listed
from harness.report.content import Content
from harness.report.section import Section
from results.summary import library, matrix_products
from sut.evidence.matrix_library import UNKNOWN, unused_avx512
from sut.registry import framework_of

CLEARLY = 1.2
"""Times as fast. Smaller differences give no sentence."""


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
        for other, others in _fastest_first(of_one):
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
                f" {listed(faster)} {multiply} {listed(faster.values())} times as fast, so"
                f" {name}'s figures here say little about an Intel processor"
            )


def _fastest_first(of_one: Mapping[str, Products]) -> list[tuple[str, Products]]:
    """Return (name, products) of each framework, the fastest first."""
    return sorted(of_one.items(), key=lambda item: (item[1].rate, item[0]), reverse=True)


def section(content: Content) -> Section:
    """Sentences on the products of the frameworks, and on how much those of nodes of one kind
    differ.
    """
    nodes = list(node_sentences([*content.groups, *content.controls]))
    products = product_sentences(content.current)
    return Section(sentences=[*products, *nodes], data={"nodes": nodes})


def product_sentences(groups: Iterable[Group]) -> list[str]:
    """Return how fast each framework multiplied large matrices, and by which library.

    There is a sentence for each place with two frameworks or more. A place is a precision, a
    device, a machine, environment variables and threads. One more sentence follows if MKL took
    narrower instructions than an AMD processor has.
    """
    places: dict[tuple[str, ...], dict[str, Products]] = {}
    for group, run, framework, rate in _rates(groups):
        cell = group.cell
        threads = [f"threads {cell.threads}"] if cell.threads else []
        place = (cell.precision, cell.device, group.machine, *variables(cell), *threads)
        products = places.setdefault(place, {}).setdefault(framework, Products())
        record = group.last.record
        products.add(rate, matrix_products(run.result), record.machine if record else None)
    several = {place: of_one for place, of_one in places.items() if len(of_one) > 1}
    machines = {machine for _, _, machine, *_ in several}
    sentences = []
    for (precision, device, machine, *where), of_one in sorted(several.items()):
        if len(machines) > 1:
            where.insert(0, machine)
        apart = "".join(f", {text}" for text in where if text)
        is_known = any(products.libraries for products in of_one.values())
        rates = []
        for name, products in _fastest_first(of_one):
            libraries = " or ".join(dict.fromkeys(products.libraries)) or "library not reported"
            remark = f" ({libraries})" if is_known else ""
            rates.append(f"{name} {products.rate / 1e9:,.0f} GFLOP/s{remark}")
        sentences.append(
            f"large matrix products in {precision} on {device}{apart}: {', '.join(rates)}; a model"
            " that spends its time in such products is about as much faster or slower"
        )
        sentences += meaning(precision, of_one)
    return sentences


def node_sentences(groups: Iterable[Group]) -> Iterator[str]:
    """Yield which nodes of one kind were measured, and how much their large matrix products differ.
    Figures of two nodes are never pooled. None without two nodes of one kind.

    Every SUT measures a large product, so nodes can be compared although they measured other
    models.
    """
    known = [(group, group.last.record.machine) for group in groups if group.last.record]
    of_nodes = {group: machine for group, machine in known if machine.node and group.good}
    kinds = collected((kind_words(machine), machine.node or "") for machine in of_nodes.values())
    for nodes in map(set, kinds.values()):
        if len(nodes) > 1:
            yield (
                f"{len(nodes)} nodes of one kind were measured: {', '.join(sorted(nodes))};"
                " figures of two nodes are never pooled"
            )
    products = []
    for group, _, framework, rate in _rates(of_nodes):
        cell = group.cell
        replicas = f" (replicas {cell.replicas})" if cell.replicas else ""
        place = f"{framework} in {cell.precision} on {cell.device}{replicas}"
        machine = of_nodes[group]
        products.append(((place, kind_words(machine)), (machine.node or "", rate)))
    for (place, _), rates in sorted(collected(products).items()):
        of_each = collected(rates)
        ordered = sorted((median(rates), node) for node, rates in of_each.items())
        (low, slowest), (high, fastest) = ordered[0], ordered[-1]
        if slowest != fastest:
            yield (
                f"large matrix products of {place} reach {low / 1e9:,.0f} to {high / 1e9:,.0f}"
                f" GFLOP/s on {len(ordered)} nodes of one kind: {fastest} reaches"
                f" {high / low - 1:.1%} more than {slowest}"
            )


def _rates(groups: Iterable[Group]) -> Iterator[tuple[Group, Run, str, float]]:
    """Yield (group, run, its framework, its floating-point operations a second of a large product)
    of each good run that has one.
    """
    for group in groups:
        framework = framework_of(group.cell.sut)
        for run in group.good if framework else ():
            rate = run.result.seen and run.result.seen.matrix_flops
            if rate:
                yield group, run, framework, rate
