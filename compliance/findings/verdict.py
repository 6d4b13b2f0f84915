"""What an audit comes to: who claims what, whether a level holds, and the whole as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from compliance.findings.check import Check, Outcome

LEVELS = ("quick", "valid", "submission")
"""What a directory can live up to, the lowest first; a level asks for what those before it ask."""


def of_level(checks: Sequence[Check], level: str) -> list[Check]:
    """Those of `level` and of the levels below it. Raises ValueError for a level there is not."""
    if level not in LEVELS:
        raise ValueError(f"--level {level}: there are {', '.join(LEVELS)}")
    asked = LEVELS[: LEVELS.index(level) + 1]
    return [check for check in checks if check.level in asked]


def holds(checks: Sequence[Check]) -> bool:
    """No check fails, and there is one that passes."""
    return all(c.outcome is not Outcome.FAIL for c in checks) and any(c.outcome is Outcome.PASS for c in checks)


def levels_held(checks: Sequence[Check]) -> tuple[str, ...]:
    """Of the findings of all levels (see `every`): the levels that hold, the lowest first."""
    return tuple(level for level in LEVELS if holds(of_level(checks, level)))


@dataclass(frozen=True)
class Claim:
    """What one scenario's folder says was measured; what could not be read is empty.

    Attributes:
        place: the folder, relative to the audited directory.
        official: the benchmark it is, or is mapped to.
        figure: LoadGen's one number, as the detail log has it, with its unit.
        verdict: LoadGen's own.
        tested, began: when, by LoadGen's test_datetime and power_begin.
        logged: the scenario of the log.
    """

    place: str
    division: str
    submitter: str
    system: str
    benchmark: str
    scenario: str
    official: str = ""
    figure: str = ""
    verdict: str = ""
    tested: str = ""
    began: str = ""
    logged: str = ""

    @property
    def sentence(self) -> str:
        """Who claims what."""
        of = f"{self.benchmark}{f' ({self.official})' if self.official not in ('', self.benchmark) else ''}"
        claimed = f"{self.figure}, {self.verdict}, tested {self.tested}" if self.figure else "no figure"
        return f"{self.submitter} ({self.division}): {of} {self.scenario} on {self.system}: {claimed}"


@dataclass(frozen=True)
class Audit:
    """`round`: the one it was judged by. `checks`: the findings of all levels."""

    round: str
    claims: tuple[Claim, ...]
    checks: tuple[Check, ...]

    def asked(self, level: str) -> list[Check]:
        """The findings of `level` and those below it. Raises ValueError for a level there is not."""
        return of_level(self.checks, level)

    def verdict(self, level: str) -> str:
        """One sentence. Raises ValueError for a level there is not."""
        asked = self.asked(level)
        counts = {outcome: sum(c.outcome is outcome for c in asked) for outcome in Outcome}
        name = f"level {level}{f' of {self.round}' if self.round else ''}"
        if failed := counts[Outcome.FAIL]:
            return f"{name} does not hold: {failed} of {len(asked)} checks fail{'s' if failed == 1 else ''}"
        if not holds(asked):
            return f"{name} does not hold: nothing could be checked"
        left = counts[Outcome.MANUAL]
        return f"{name} holds" + (f"; {left} finding{'s are' if left > 1 else ' is'} for a person to judge" if left else "")

    def as_json(self, directory: str, level: str) -> dict[str, Any]:
        """What `--json` writes; see schemas/checks.json."""
        asked = self.asked(level)
        return {
            "directory": directory,
            "round": self.round,
            "level": level,
            "holds": holds(asked),
            "levels": list(levels_held(self.checks)),
            "claims": [asdict(claim) for claim in self.claims],
            "checks": [c.as_json() for c in asked],
        }
