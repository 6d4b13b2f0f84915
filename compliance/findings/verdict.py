"""The outcome of an audit: the results that were judged, the checks, and the levels that pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from formats.checks import Audited, Check, ResultLine, Verdict

LEVELS = ("quick", "valid", "submission")
"""The levels that a directory can reach, the lowest first. Each level includes the requirements of
those before it.
"""


def passes(checks: Sequence[Check]) -> bool:
    """Whether no check fails and at least one passes."""
    verdicts = {check.verdict for check in checks}
    return Verdict.PASS in verdicts and Verdict.FAIL not in verdicts


@dataclass(frozen=True)
class Audit:
    """The whole outcome of one audit.

    Attributes:
        round: the round it was judged by; empty if none could be chosen.
        results: a line for each scenario's folder.
        checks: the checks of all levels.
    """

    round: str
    results: tuple[ResultLine, ...]
    checks: tuple[Check, ...]

    def checks_for(self, level: str) -> list[Check]:
        """The checks of `level` and of all lower levels. Raises ValueError for an unknown level."""
        if level not in LEVELS:
            raise ValueError(f"--level {level}: there are {', '.join(LEVELS)}")
        included = LEVELS[: LEVELS.index(level) + 1]
        return [check for check in self.checks if check.level in included]

    def passes(self, level: str) -> bool:
        """Whether the directory reaches `level`. Raises ValueError for an unknown level."""
        return passes(self.checks_for(level))

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that pass, the lowest first."""
        return tuple(level for level in LEVELS if self.passes(level))

    def sentence(self, level: str) -> str:
        """A sentence that says whether `level` passes, and how many checks fail it. Raises
        ValueError for an unknown level.
        """
        checks = self.checks_for(level)
        counts = Counter(check.verdict for check in checks)
        name = f"level {level} of {self.round}" if self.round else f"level {level}"
        if failures := counts[Verdict.FAIL]:
            fail = "fails" if failures == 1 else "fail"
            return f"{name} does not pass: {failures} of {len(checks)} checks {fail}"
        if not passes(checks):
            return f"{name} does not pass: nothing could be checked"
        manual = counts[Verdict.MANUAL]
        if not manual:
            return f"{name} passes"
        findings = "1 finding is" if manual == 1 else f"{manual} findings are"
        return f"{name} passes; {findings} for a person to judge"

    def document(self, directory: str, level: str) -> Audited:
        """The document that `--json` writes. Raises ValueError for an unknown level."""
        return Audited(
            directory=directory,
            round=self.round,
            level=level,
            holds=self.passes(level),
            levels=self.levels,
            results=self.results,
            checks=tuple(self.checks_for(level)),
        )
