"""The floating-point operations of the matrix products of a program, from its text in StableHLO.
Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

_FUNCTION = re.compile(r"\s*func\.func \w+ @([\w.\-$]+)\(")
_CONSTANT = re.compile(r"%(\w+) = stablehlo\.constant dense<(-?\d+)> : tensor<u?i\d+>")
_LOOP = re.compile(r"stablehlo\.while\((.*?)\) : ")
_BEGINS_AT = re.compile(r"%(\w+) = %(\w+)")
_BELOW = re.compile(r"stablehlo\.compare LT, %(\w+), %(\w+),")
_CALL = re.compile(r"\bcall @([\w.\-$]+)\(")
_PRODUCT = re.compile(
    r"stablehlo\.(?:dot_general|convolution)\b(.*)"
    r" : \(tensor<(.*?)>, tensor<(.*?)>\) -> tensor<(.*?)>"
)
_CONTRACTED = re.compile(r"contracting_dims = \[([\d, ]*)\]")
_KERNEL = re.compile(r"\]x\[([^\]]*)\]->")


@dataclass
class _Loop:
    """A loop around the next line. `rounds`: how often its body runs at most; None: not known."""

    indent: int
    begins: Mapping[str, str]
    rounds: int | None = None


@dataclass
class _Function:
    """The operations of a function, without those of functions that it calls.

    `calls`: (name, how often at most). A number that is not known is None.
    """

    flops: int | None = 0
    calls: list[tuple[str, int | None]] = field(default_factory=list)


def of(text: str) -> int | None:
    """Return the operations of a run of the program, with all rounds of its loops. A loop that may
    end earlier counts as a whole, and so does each branch. None: a loop has no known end.
    """
    functions: dict[str, _Function] = {}
    function = _Function()
    constants: dict[str, int] = {}
    loops: list[_Loop] = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if begun := _FUNCTION.match(line):
            function = functions[begun[1]] = _Function()
            constants = {}
        elif constant := _CONSTANT.search(line):
            constants[constant[1]] = int(constant[2])
        elif loop := _LOOP.search(line):
            loops.append(_Loop(indent, dict(_BEGINS_AT.findall(loop[1]))))
        elif loops and line.strip() == "}" and indent == loops[-1].indent:
            loops.pop()
        elif loops and loops[-1].rounds is None and (below := _BELOW.search(line)):
            loops[-1].rounds = _rounds(below, loops[-1], constants)
        elif call := _CALL.search(line):
            function.calls.append((call[1], _times(loops)))
        elif product := _PRODUCT.search(line):
            function.flops = _plus(function.flops, _flops(*product.groups()), _times(loops))
    return _with_calls("main", functions)


def _rounds(below: re.Match[str], loop: _Loop, constants: Mapping[str, int]) -> int | None:
    """Return how often a loop runs that goes on while its counter is below a constant."""
    first, end = constants.get(loop.begins.get(below[1], "")), constants.get(below[2])
    return None if first is None or end is None else end - first


def _times(loops: list[_Loop]) -> int | None:
    """Return how often a line within these loops runs."""
    rounds = [loop.rounds for loop in loops]
    return None if None in rounds else prod(each for each in rounds if each is not None)


def _plus(total: int | None, flops: int | None, times: int | None) -> int | None:
    if flops == 0:
        return total
    return None if total is None or flops is None or times is None else total + flops * times


def _with_calls(name: str, functions: Mapping[str, _Function]) -> int | None:
    function = functions[name]
    total = function.flops
    for callee, times in function.calls:
        total = _plus(total, _with_calls(callee, functions), times)
    return total


def _flops(attributes: str, first: str, second: str, result: str) -> int:
    """Return the operations of one product: two for each multiplication."""
    kernel = _KERNEL.search(attributes)
    if kernel:
        outputs = _sides(second)[kernel[1].split(", ").index("o")]
        return 2 * prod(_sides(result)) * prod(_sides(second)) // outputs
    contracted = _CONTRACTED.search(attributes)
    places = contracted[1].split(", ") if contracted and contracted[1] else []
    return 2 * prod(_sides(result)) * prod(_sides(first)[int(place)] for place in places)


def _sides(tensor: str) -> list[int]:
    """The lengths of a tensor's axes, from its type such as `4x8xf32`."""
    return [int(side) for side in tensor.split("x")[:-1]]
