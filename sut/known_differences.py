"""The differences of released libraries that `./run.sh conformance` showed, and that were looked
into to their cause. Standard library only.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sut.registry import SUTS

_FILE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True, kw_only=True)
class Known:
    """A difference of a library.

    Attributes:
        words: a sentence with the library and its release.
        cause: the file of the library and its line.
        library: the library under which a SUT's model names its class (`SutSpec.classes`); empty:
            no SUT's models are concerned.
        types: the types of models, as config.json names them.
        cases: the rows of the table, such as `qwen2, windows of the last two layers`.
        report: the public report; empty: there is none that we know.
    """

    words: str
    cause: str = ""
    library: str = ""
    types: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    report: str = ""


@cache
def every() -> tuple[Known, ...]:
    """All of them."""
    rows: list[dict[str, Any]] = tomllib.loads(_FILE.read_text(encoding="utf-8"))["known"]
    return tuple(Known(**{key: _frozen(value) for key, value in row.items()}) for row in rows)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def of_model(sut: str, model_type: str) -> tuple[str, ...]:
    """The sentences on a SUT's library and a type of model."""
    spec = SUTS.get(sut)
    library = spec.classes if spec else ""
    return tuple(
        each.words
        for each in every()
        if library and each.library == library and model_type in each.types
    )
