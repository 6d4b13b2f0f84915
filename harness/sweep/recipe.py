"""A recipe: a TOML file that names the cells of a sweep. Unknown keys and names are refused with
one sentence.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.request import options
from harness.request.flags import did_you_mean

FOLDER = Path(__file__).parents[1] / "recipes"
_TOP = ("summary", "source", "defaults", "cells", "missing")
LEFT_OUT = ("out", "cache", "submitter", "python")
"""Flags that a recipe does not have: paths on this machine, and the submitter's name."""
_FLAGS = tuple(name for name in options.sweep_names() if name not in LEFT_OUT)
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
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise UsageError(f"recipe {path}: cannot be read as a TOML file ({e})") from None
    _check_keys(path, "", document, _TOP)
    defaults = _values(path, "[defaults]", document.get("defaults", {}))
    tables = list(_tables(path, document, "cells"))
    if not tables:
        raise UsageError(
            f"recipe {path}: has no [[cells]]: give at least one with `sut`, `model` and `scenario`"
        )
    missing = {}
    for where, table in _tables(path, document, "missing"):
        _check_keys(path, where, table, _MISSING)
        if set(table) != set(_MISSING):
            raise UsageError(f"recipe {path}: {where} needs `what` and `why`")
        missing[str(table["what"])] = str(table["why"])
    return Recipe(
        name=path.stem,
        grids=tuple({**defaults, **_values(path, where, table)} for where, table in tables),
        missing=missing,
    )


def _tables(
    path: Path, document: Mapping[str, Any], key: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"recipe {path}: {key} is written as [[{key}]]")
    yield from ((f"[[{key}]] number {n}", table) for n, table in enumerate(tables, 1))


def _values(path: Path, where: str, table: Any) -> dict[str, list[str]]:
    """The flags of one table, checked. `batch-size` becomes the field `batch_size`, and a single
    value a list of one.

    `where` names the table in messages. Raises UsageError.
    """
    if not isinstance(table, dict):
        raise UsageError(f"recipe {path}: {where} is a table of flags")
    _check_keys(path, where, table, tuple(name.replace("_", "-") for name in _FLAGS))
    values, lists = {}, (*options.LISTS, "sut_option", "chat_option")
    for key, value in table.items():
        name = key.replace("-", "_")
        typed = value if isinstance(value, list) else [value]
        if not typed or not all(map(_is_text_or_number, typed)):
            raise UsageError(
                f"recipe {path}: {where}: {key} is a text, a number or a list of these"
            )
        if len(typed) > 1 and name not in lists:
            spelt = ", ".join(each.replace("_", "-") for each in lists)
            raise UsageError(
                f"recipe {path}: {where}: {key} takes one value; lists are for {spelt}"
            )
        values[name] = [str(v) for v in typed]
    return values


def _is_text_or_number(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _check_keys(path: Path, where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            place = f"{where}: " if where else ""
            raise UsageError(
                f"recipe {path}: {place}{key} is unknown{did_you_mean(key, known)}; choose from"
                f" {', '.join(known)}"
            )
