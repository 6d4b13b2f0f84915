"""Where the rules stand that the checks apply: an id → the rule in one sentence, its documents and sections (sources.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Citation:
    """`document`: a file, with the repository of the mlcommons organisation it lies in, or `this project`. `section`: a heading, a name."""

    document: str
    section: str


@dataclass(frozen=True)
class Source:
    """`rule`: what is asked, in one sentence. `places`: where that stands."""

    rule: str
    citations: tuple[Citation, ...]

    @property
    def cited(self) -> tuple[str, ...]:
        return tuple(f"{citation.document}, {citation.section}" for citation in self.citations)


@cache
def entries() -> dict[str, Source]:
    """Every rule by its id."""
    with (Path(__file__).parent / "sources.toml").open("rb") as f:
        found = tomllib.load(f)
    return {
        rule_id: Source(entry["rule"], tuple(Citation(**citation) for citation in entry["citations"])) for rule_id, entry in found.items()
    }


def get(rule_id: str) -> Source:
    """Raises ValueError for an id that sources.toml lacks."""
    if rule_id not in entries():
        raise ValueError(f"rule {rule_id}: sources.toml has {', '.join(entries())}")
    return entries()[rule_id]
