"""The rules that checks apply, by id. Each is one sentence, with the documents and sections where
it is written (sources.toml).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from compliance.rules.tables import Table


class Citation(Table, frozen=True):
    """The place where a rule is written.

    Attributes:
        document: the repository of the mlcommons organisation and a file in it; or `this project`.
        section: a heading, or the name of a function or table.
    """

    document: str
    section: str


class Source(Table, frozen=True):
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
    content = (Path(__file__).parent / "sources.toml").read_bytes()
    return msgspec.toml.decode(content, type=dict[str, Source])


def get(rule_id: str) -> Source:
    """The rule with this id. Raises ValueError for an id that is not in sources.toml."""
    if rule_id not in entries():
        raise ValueError(f"rule {rule_id}: sources.toml has {', '.join(entries())}")
    return entries()[rule_id]
