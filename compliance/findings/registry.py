"""Every check of the audit: its id, name, rules and level, from checks.toml."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path

import msgspec

from compliance.rules import sources
from compliance.rules.tables import Table
from formats.checks import RequiredBy


class Entry(Table, frozen=True, dict=True):
    """The facts about a check that do not depend on the audited directory.

    Attributes:
        name: the subject of the check, in a few words for a reader.
        rules: the rules it applies, as ids of sources.toml; empty: a convention of this project.
        level: the lowest level that requires it: `quick`, `valid` or `submission`.
        checker: whether MLCommons' submission checker refuses a failure; or the rounds whose
            checker does.
        of_logs: whether a failure shows that the logs are not those of one unchanged run, or that
            they contradict what the tree claims.
        fix: how to correct a failure; {wheel} is replaced by that of the round.
        others: the same for a directory that another harness wrote, if `fix` does not fit it.
    """

    name: str
    rules: tuple[str, ...]
    level: str = "quick"
    checker: bool | tuple[str, ...] = False
    of_logs: bool = False
    fix: str = ""
    others: str = ""

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

    def required_by(self, round: str) -> RequiredBy:
        """Who requires the check in a round."""
        checker = self.checker
        if checker is True or (checker and round in checker):
            return RequiredBy.CHECKER
        if self.of_logs:
            return RequiredBy.LOGS
        return RequiredBy.RULES if self.rules else RequiredBy.AUDIT


@cache
def entries() -> dict[str, Entry]:
    """Every check by its id, in the order of checks.toml."""
    content = (Path(__file__).parent / "checks.toml").read_bytes()
    return msgspec.toml.decode(content, type=dict[str, Entry])


def get(check_id: str) -> Entry:
    """The entry of one check. Raises ValueError for an id that is not in checks.toml."""
    if check_id not in entries():
        raise ValueError(
            f"check {check_id}: checks.toml lacks it; add it there, with its name and rules"
        )
    return entries()[check_id]
