"""The outcome of an audit: the results that were judged, the checks, and the levels that pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from compliance.findings.check import Check, Verdict

LEVELS = ("quick", "valid", "submission")
"""The levels that a directory can reach, the lowest first. Each level includes the requirements of
those before it.
"""


def passes(checks: Sequence[Check]) -> bool:
    """Whether no check fails and at least one passes."""
    return all(check.verdict is not Verdict.FAIL for check in checks) and any(
        check.verdict is Verdict.PASS for check in checks
    )


@dataclass(frozen=True, kw_only=True)
class ResultLine:
    """One result that was judged: a scenario's folder, or a training. A field is empty if the log
    does not give the value.

    Attributes:
        place: the folder, relative to the audited directory.
        official: the official benchmark it is, or is mapped to.
        figure: LoadGen's one number, as in the detail log, with its unit; for a training its
            ms/step.
        verdict: LoadGen's own verdict, VALID or INVALID; for a training a text that says there is
            none.
        tested, began: when the test ran, by LoadGen's test_datetime and power_begin.
        logged: the scenario the log names.
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
        """A sentence with the submitter, the benchmark, the system and the figure."""
        benchmark = self.benchmark
        if self.official not in ("", benchmark):
            benchmark += f" ({self.official})"
        result = (
            f"{self.figure}, {self.verdict}, tested {self.tested}" if self.figure else "no figure"
        )
        return (
            f"{self.submitter} ({self.division}): {benchmark} {self.scenario} on {self.system}:"
            f" {result}"
        )


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
        counts = {verdict: sum(check.verdict is verdict for check in checks) for verdict in Verdict}
        name = f"level {level}{f' of {self.round}' if self.round else ''}"
        if failures := counts[Verdict.FAIL]:
            return (
                f"{name} does not hold: {failures} of {len(checks)} checks"
                f" fail{'s' if failures == 1 else ''}"
            )
        if not passes(checks):
            return f"{name} does not hold: nothing could be checked"
        manual = counts[Verdict.MANUAL]
        if not manual:
            return f"{name} holds"
        findings = "1 finding is" if manual == 1 else f"{manual} findings are"
        return f"{name} holds; {findings} for a person to judge"

    def as_json(self, directory: str, level: str) -> dict[str, Any]:
        """The document that `--json` writes; see schemas/checks.json."""
        return {
            "directory": directory,
            "round": self.round,
            "level": level,
            "holds": self.passes(level),
            "levels": list(self.levels),
            "results": [asdict(line) for line in self.results],
            "checks": [check.as_json() for check in self.checks_for(level)],
        }
