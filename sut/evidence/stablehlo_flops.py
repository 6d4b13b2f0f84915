"""The floating-point operations of the matrix products of a program, from its text in StableHLO.
Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan, prod

_FUNCTION = re.compile(r"\s*func\.func \w+ @([\w.\-$]+)\(")
_CONSTANT = re.compile(r"%(\w+) = stablehlo\.constant dense<(-?\d+)> : tensor<u?i\d+>")
_LOOP = re.compile(r"stablehlo\.while\((.*?)\) : ")
_BEGINS_AT = re.compile(r"%(\w+) = %(\w+)")
_BELOW = re.compile(r"stablehlo\.compare LT, %(\w+), %(\w+),")
_CALL = re.compile(r"\bcall @([\w.\-$]+)\(")
PRODUCT = re.compile(
    r"stablehlo\.(?:dot_general|convolution)\b(.*)"
    r" : \(tensor<(.*?)>, tensor<(.*?)>\) -> tensor<(.*?)>"
)
"""A matrix product: its attributes, and the types of its operands and of its result."""
_CONTRACTED = re.compile(r"contracting_dims = \[([\d, ]*)\]")
_KERNEL = re.compile(r"\]x\[([^\]]*)\]->")


@dataclass
class _Loop:
    """A loop around the next line. `rounds`: how often its body runs at most; NaN: not known."""

    indent: int
    begins: Mapping[str, str]
    rounds: float = nan


Parts = list[tuple[int | str, float]]
"""The products and calls of a function: the operations or the name, and how often it runs."""


def of(text: str, rounds: float = nan) -> float:
    """Return the operations of a run of the program, with all rounds of its loops. A loop that may
    end earlier counts as a whole, and so does each branch.

    Args:
        rounds: how often a loop runs that has no known end. With NaN the result is NaN if there are
            products in such a loop.
    """
    functions: dict[str, Parts] = {}
    parts: Parts = []
    constants: dict[str, int] = {}
    loops: list[_Loop] = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if found := _FUNCTION.match(line):
            parts = functions[found[1]] = []
            constants = {}
        elif found := _CONSTANT.search(line):
            constants[found[1]] = int(found[2])
        elif found := _LOOP.search(line):
            loops.append(_Loop(indent, dict(_BEGINS_AT.findall(found[1]))))
        elif loops and line.strip() == "}" and indent == loops[-1].indent:
            loops.pop()
        elif loops and isnan(loops[-1].rounds) and (found := _BELOW.search(line)):
            first = loops[-1].begins.get(found[1], "")
            loops[-1].rounds = constants.get(found[2], nan) - constants.get(first, nan)
        elif found := _CALL.search(line):
            parts.append((found[1], _times(loops, rounds)))
        elif found := PRODUCT.search(line):
            parts.append((_flops(*found.groups()), _times(loops, rounds)))
    return _total("main", functions)


def _times(loops: list[_Loop], unknown: float) -> float:
    """Return how often a line within these loops runs."""
    return prod(unknown if isnan(loop.rounds) else loop.rounds for loop in loops)


def _total(name: str, functions: Mapping[str, Parts]) -> float:
    total: float = 0
    for part, times in functions[name]:
        flops = _total(part, functions) if isinstance(part, str) else part
        if flops:
            total += flops * times
    return total


def sides(tensor: str) -> list[int]:
    """Return the lengths of a tensor's axes, from its type such as `4x8xf32`."""
    return [int(side) for side in re.findall(r"(\d+)x", tensor)]


def _flops(attributes: str, first: str, second: str, result: str) -> int:
    """Return the operations of one product: two for each multiplication."""
    kernel = _KERNEL.search(attributes)
    if kernel:
        outputs = sides(second)[kernel[1].split(", ").index("o")]
        return 2 * prod(sides(result)) * prod(sides(second)) // outputs
    contracted = _CONTRACTED.search(attributes)
    places = re.findall(r"\d+", contracted[1]) if contracted else ()
    return 2 * prod(sides(result)) * prod(sides(first)[int(place)] for place in places)
