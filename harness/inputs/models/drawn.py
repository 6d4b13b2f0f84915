"""The tensors of a seeded checkpoint: their names, their shapes, and the distribution from which
each is drawn.

A model's TOML has a table of them (`Weight`). A model with too many tensors for a table by hand has
a module next to its TOML, which derives names and shapes from a size's configuration (`Parts`). The
rows of its table are patterns of names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from itertools import product
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


@dataclass(frozen=True)
class Weight:
    """One row of a model's table, before its dimensions are known.

    Attributes:
        name: the native library's name. `{layer}` stands for each of num_hidden_layers,
            `{global_layer}` for the layers in the configuration's `global_attn_indexes`, and
            `{window_layer}` for the others. Words separated by commas, `{q,k}`, give one name each.
            In a model with parts it is a pattern of names, with `*`, `?` and `[…]` as for file
            names, and the first matching row counts.
        shape: each axis is a product of configuration keys and whole numbers
            ("num_attention_heads*head_dim", "3*hidden_size"). Empty in a model with parts.
        mean, std: of the normal distribution from which it is drawn.
        gain: if not None, std = gain / sqrt(fan-in), which keeps the scale of a product or a
            convolution at every width.
        residual: std is also divided by sqrt(num_hidden_layers), so that the sum that all layers
            add to the residual keeps its scale at every depth.
        unless: a configuration key; if its value is true, the model has no such tensor.
    """

    name: str
    shape: tuple[str, ...] = ()
    mean: float = 0.0
    std: float = 0.0
    gain: float | None = None
    residual: bool = False
    unless: str | None = None


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


def tensors(rows: Sequence[Weight], config: Config, parts: Parts | None) -> tuple[Tensor, ...]:
    """The checkpoint of a configuration, in file order: by table row, then by layer, or in the
    order of the parts. Raises ValueError for a name of a part that no row matches.
    """
    found: list[Tensor] = []
    if parts:
        shapes = parts.shapes(config)
        pairs = zip(_rows_of(shapes, rows), shapes.items(), strict=True)
        return tuple(_tensor(row, name, shape, config) for row, (name, shape) in pairs)
    for row in rows:
        if row.unless and config.get(row.unless):
            continue
        shape = tuple(_length(axis, config) for axis in row.shape)
        found += [_tensor(row, name, shape, config) for name in expanded(row.name, config)]
    return tuple(found)


def _rows_of(names: Iterable[str], rows: Sequence[Weight]) -> Iterator[Weight]:
    """Yield the first row that matches each name. Raises ValueError if there is none."""
    pattern = re.compile("|".join(f"({translate(row.name)})" for row in rows))
    for name in names:
        match = pattern.match(name)
        if match is None or match.lastindex is None:
            raise ValueError(f"no row of the table matches {name}: add one")
        yield rows[match.lastindex - 1]


def _tensor(row: Weight, name: str, shape: Shape, config: Config) -> Tensor:
    std = row.std
    if row.gain is not None:
        # The inputs of one output: all axes but the first, of a matrix and of a convolution.
        fan_in = math.prod(shape[1:]) if len(shape) > 1 else shape[-1]
        std = row.gain / math.sqrt(fan_in)
    if row.residual:
        std /= math.sqrt(config["num_hidden_layers"])
    return Tensor(name=name, shape=shape, mean=row.mean, std=std)


def _length(axis: str, config: Config) -> int:
    """The length of an axis, which is a product of configuration keys and whole numbers."""
    return math.prod(int(config.get(factor, factor)) for factor in axis.split("*"))


def expanded(name: str, config: Config) -> list[str]:
    """All names that a row of the table stands for. With several braces the last one changes
    fastest.
    """
    parts = re.split("[{}]", name)  # every second one was in braces
    choices = [_words(part, config) if n % 2 else [part] for n, part in enumerate(parts)]
    return ["".join(map(str, words)) for words in product(*choices)]


def _words(inside: str, config: Config) -> Sequence[int | str]:
    """The words that a pair of braces stands for."""
    layers = range(config["num_hidden_layers"])
    of_image = config.get("global_attn_indexes", ())
    if inside == "layer":
        return layers
    if inside == "global_layer":
        return [n for n in layers if n in of_image]
    if inside == "window_layer":
        return [n for n in layers if n not in of_image]
    return inside.split(",")
