"""Checkpoints drawn by rules from the native library's state dict, for models with too many tensors
for a table by hand.

Names and shapes are in one JSON file for each size, written once by `python -m
sut.native_torch.state_shapes`. For other models a module next to the TOML derives them from a
size's configuration (`Parts`). The rules are in the TOML: a pattern of tensor names, and how
matching tensors are initialised.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from formats.workload import Config

Shape = tuple[int, ...]
"""The lengths of the axes of an array."""
Shapes = dict[str, Shape]
"""Name of a tensor → its shape."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One tensor of a checkpoint, with every dimension known. Its values are drawn from a normal
    distribution of `mean` and `std`.
    """

    name: str
    shape: Shape
    mean: float
    std: float


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How the tensors that match a pattern are initialised.

    Attributes:
        pattern: pattern of the whole name, with `*`, `?` and `[…]` as for file names. The first
            matching rule counts.
        mean, std: of the normal distribution.
        gain: if not None, std = gain / sqrt(fan-in), which keeps a product's or a convolution's
            scale at every width.
    """

    pattern: str
    mean: float = 0.0
    std: float = 0.0
    gain: float | None = None


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A model of several parts, each in a folder of the checkpoint, in the layout of diffusers.

    Attributes:
        shapes: configuration of a size → `part/tensor` → shape.
        configs: configuration of a size → part → its config.json.
        files: part → the name of the file with its weights.
    """

    shapes: Callable[[Config], Shapes]
    configs: Callable[[Config], dict[str, dict[str, Any]]]
    files: Mapping[str, str]


def fan_in(shape: Sequence[int]) -> int:
    """The number of inputs of one output. For a matrix [out, in] and a convolution [out, in,
    height, width] it is the product of all axes but the first.
    """
    return math.prod(shape[1:]) if len(shape) > 1 else shape[-1]


def tensors(rules: Sequence[Rule], shapes: Mapping[str, Sequence[int]]) -> tuple[Tensor, ...]:
    """The tensors of the checkpoint, in the order of `shapes`. Raises ValueError for a name that no
    rule matches and for a rule that matches no name.
    """
    found: list[Tensor] = []
    used: list[Rule] = []
    for name, shape in shapes.items():
        rule = _rule_for(name, rules)
        used.append(rule)
        found.append(_tensor(name, tuple(shape), rule))
    idle = [rule.pattern for rule in rules if rule not in used]
    if idle:
        raise ValueError(f"the rule {idle[0]!r} matches no tensor: remove or correct it")
    return tuple(found)


def _rule_for(name: str, rules: Sequence[Rule]) -> Rule:
    for rule in rules:
        if fnmatchcase(name, rule.pattern):
            return rule
    raise ValueError(f"no rule matches {name}: add one")


def _tensor(name: str, shape: Shape, rule: Rule) -> Tensor:
    std = rule.std
    if rule.gain is not None:
        std = rule.gain / math.sqrt(fan_in(shape))
    return Tensor(name=name, shape=shape, mean=rule.mean, std=std)


def shapes(path: Path, layers: int) -> Shapes:
    """Name → shape, from a file of `state_shapes`. `{layer}` stands for each of `layers`."""
    document = json.loads(path.read_text(encoding="utf-8"))["tensors"]
    found: Shapes = {}
    for name, shape in document.items():
        numbers = range(layers) if "{layer}" in name else range(1)
        for number in numbers:
            found[name.replace("{layer}", str(number))] = tuple(shape)
    return found
