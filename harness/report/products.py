"""How fast frameworks multiply large matrices, by which libraries, and what a difference means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from formats.record import Machine
from harness.report.comparison import listed
from results.summary import library
from sut.evidence.matrix_library import UNKNOWN, unused_avx512

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
