"""Every check of the audit: its id, name, rules and level, from checks.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from compliance.rules import sources


@dataclass(frozen=True)
class Entry:
    """The facts about a check that do not depend on the audited directory.

    Attributes:
        name: the subject of the check, in a few words for a reader.
        rules: the rules it applies, as ids of sources.toml; empty: a convention of this project.
        level: the lowest level that requires it: `quick`, `valid` or `submission`.
    """

    name: str
    rules: tuple[str, ...]
    level: str

    @cached_property
    def rule(self) -> str:
        """The requirements of the rules, as one text. Empty if the check applies a
        convention of this project.
        """
        return " ".join(sources.get(rule_id).rule for rule_id in self.rules)

    @cached_property
    def source(self) -> str:
        """The documents and sections where the rules are written."""
        cited = [place for rule_id in self.rules for place in sources.get(rule_id).cited]
        return "; ".join(dict.fromkeys(cited))


@cache
def entries() -> dict[str, Entry]:
    """Every check by its id, in the order of checks.toml."""
    with (Path(__file__).parent / "checks.toml").open("rb") as f:
        rows = tomllib.load(f)
    return {
        check_id: Entry(row["name"], tuple(row["rules"]), row.get("level", "quick"))
        for check_id, row in rows.items()
    }


def get(check_id: str) -> Entry:
    """The entry of one check. Raises ValueError for an id that is not in checks.toml."""
    if check_id not in entries():
        raise ValueError(
            f"check {check_id}: checks.toml lacks it; add it there, with its name and rules"
        )
    return entries()[check_id]
