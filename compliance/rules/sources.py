"""The rules that checks apply, by id. Each is one sentence, with the documents and sections where
it is written (sources.toml).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Citation:
    """The place where a rule is written.

    Attributes:
        document: the repository of the mlcommons organisation and a file in it; or `this project`.
        section: a heading, or the name of a function or table.
    """

    document: str
    section: str


@dataclass(frozen=True)
class Source:
    """One rule: its requirement in one sentence, and the places where it is written."""

    rule: str
    citations: tuple[Citation, ...]

    @property
    def cited(self) -> tuple[str, ...]:
        """Each document and section, as a reader sees them."""
        return tuple(f"{citation.document}, {citation.section}" for citation in self.citations)


@cache
def entries() -> dict[str, Source]:
    """Every rule by its id."""
    with (Path(__file__).parent / "sources.toml").open("rb") as f:
        rows = tomllib.load(f)
    return {
        rule_id: Source(row["rule"], tuple(Citation(**citation) for citation in row["citations"]))
        for rule_id, row in rows.items()
    }


def get(rule_id: str) -> Source:
    """The rule with this id. Raises ValueError for an id that is not in sources.toml."""
    if rule_id not in entries():
        raise ValueError(f"rule {rule_id}: sources.toml has {', '.join(entries())}")
    return entries()[rule_id]
