"""A recipe: a TOML file that names the cells of a sweep. Unknown keys and names are refused with
one sentence.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import Refused, UsageError, about
from harness.request import options
from harness.request.flags import did_you_mean

FOLDER = Path(__file__).parents[1] / "recipes"
_TOP = ("summary", "source", "defaults", "cells", "missing")
LEFT_OUT = ("out", "cache", "submitter", "python")
"""Flags that a recipe does not have: paths on this machine, and the submitter's name."""
_FLAGS = tuple(name for name in options.OF_SWEEP if name not in LEFT_OUT)
_LISTS = (*options.LISTS, "sut_option", "chat_option")
_MISSING = ("what", "why")
_GONE = {
    "hf-2019": (
        "its TorchScript, XLNet, XLM and CTRL are not measured any more; ./run.sh sweep --sut all"
        " --model bert,hf-2019 --seq-len 8,64,128 --dataset synthetic --scenario Offline measures"
        " what is left"
    )
}
"""Recipes of earlier releases → what measures the same now."""

Values = Mapping[str, list[str]]
"""Name of a flag, as a field of `Options` → its values, as a user would type them.

Each of several values gives further cells. Those of `sut_option` and `chat_option` all go into
every cell.
"""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The cells of a sweep, read from a file or made from flags.

    Attributes:
        name: the file's name without its ending.
        grids: groups of cells.
        missing: a part of the recipe's source that this harness lacks → why.
    """

    name: str
    grids: tuple[Values, ...]
    missing: Mapping[str, str]


def names() -> list[str]:
    """The recipes that come with the harness."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read(name: str) -> Recipe:
    """The recipe of this name, or of the file at this path. Raises UsageError."""
    if name in _GONE:
        raise UsageError(f"recipe {name}: it is gone: {_GONE[name]}")
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        raise UsageError(
            f"recipe {name}: there is no such recipe{did_you_mean(name, names())}; choose from"
            f" {', '.join(names())}, or give a .toml file"
        )
    with about(f"recipe {path}"):
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as e:
            raise Refused(f"cannot be read as a TOML file ({e})") from None
        return _recipe(path.stem, document)


def _recipe(name: str, document: Mapping[str, Any]) -> Recipe:
    """The recipe of a TOML document. Raises Refused."""
    _check_keys("", document, _TOP)
    defaults = _values("[defaults]", document.get("defaults", {}))
    grids = []
    for where, table in _tables(document, "cells"):
        grids.append({**defaults, **_values(where, table)})
    if not grids:
        raise Refused("has no [[cells]]: give at least one with `sut`, `model` and `scenario`")
    missing = {}
    for where, table in _tables(document, "missing"):
        _check_keys(where, table, _MISSING)
        if set(table) != set(_MISSING):
            raise Refused(f"{where} needs `what` and `why`")
        missing[str(table["what"])] = str(table["why"])
    return Recipe(name=name, grids=tuple(grids), missing=missing)


def _tables(document: Mapping[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise Refused(f"{key} is written as [[{key}]]")
    return [(f"[[{key}]] number {n}", table) for n, table in enumerate(tables, 1)]


def _values(where: str, table: Any) -> dict[str, list[str]]:
    """The flags of one table, checked. `batch-size` becomes the field `batch_size`, and a single
    value a list of one.

    `where` names the table in messages. Raises Refused.
    """
    if not isinstance(table, dict):
        raise Refused(f"{where} is a table of flags")
    _check_keys(where, table, [options.flag(name)[2:] for name in _FLAGS])
    values = {}
    for key, value in table.items():
        name = options.name_of(key)
        typed = value if isinstance(value, list) else [value]
        # A boolean is an integer, too.
        if not typed or not all(type(each) in (str, int, float) for each in typed):
            raise Refused(f"{where}: {key} is a text, a number or a list of these")
        if len(typed) > 1 and name not in _LISTS:
            spelt = ", ".join(options.flag(each)[2:] for each in _LISTS)
            raise Refused(f"{where}: {key} takes one value; lists are for {spelt}")
        values[name] = [str(v) for v in typed]
    return values


def _check_keys(where: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            place = f"{where}: " if where else ""
            choices = ", ".join(known)
            raise Refused(
                f"{place}{key} is unknown{did_you_mean(key, known)}; choose from {choices}"
            )
