"""The outcome of an audit: the results that were judged, the checks, and the levels that pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from formats.checks import Audited, Check, Checks, RequiredBy, ResultLine, Verdict

LEVELS = ("quick", "valid", "submission")
"""The levels that a directory can reach, the lowest first. Each level includes the requirements of
those before it.
"""


def passes(checks: Sequence[Check], strict: bool = True) -> bool:
    """Whether no failure counts and at least one check passes.

    Args:
        strict: whether a failure counts even if only the rules' text requires the check.
    """
    if all(check.verdict is not Verdict.PASS for check in checks):
        return False
    return not any(_counts(check, strict) for check in checks)


def _counts(check: Check, strict: bool) -> bool:
    failed = check.verdict is Verdict.FAIL
    return failed and (strict or check.required_by is not RequiredBy.RULES)


@dataclass(frozen=True)
class Audit:
    """The whole outcome of one audit.

    Attributes:
        round: the round it was judged by, or several, separated by commas; empty if none could be
            chosen, or if the logs are not judged.
        results: a line for each scenario's folder.
        checks: the checks of all levels.
        round_chosen_by: how the round was chosen.
        lenient: whether a failure may be left out that only the rules' text requires. It may for
            submissions, whose round has a checker; a run directory or a bare folder of logs has
            none.
        checked: whether the round has a checker for such a directory or for a part of it.
    """

    round: str
    results: tuple[ResultLine, ...]
    checks: tuple[Check, ...]
    round_chosen_by: str = ""
    lenient: bool = False
    checked: bool = False

    def checks_for(self, level: str) -> Checks:
        """The checks of `level` and of all lower levels. Raises ValueError for an unknown level."""
        if level not in LEVELS:
            raise ValueError(f"--level {level}: there are {', '.join(LEVELS)}")
        included = LEVELS[: LEVELS.index(level) + 1]
        return [check for check in self.checks if check.level in included]

    def passes(self, level: str, strict: bool = True) -> bool:
        """Whether the directory reaches `level`. Raises ValueError for an unknown level.

        Args:
            strict: whether every failure counts, also in a submission.
        """
        return passes(self.checks_for(level), strict or not self.lenient)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that pass strictly, the lowest first."""
        return tuple(level for level in LEVELS if self.passes(level))

    def sentence(self, level: str, strict: bool = True) -> str:
        """A sentence that says whether `level` passes, and how many checks fail it. Raises
        ValueError for an unknown level.
        """
        checks = self.checks_for(level)
        if self.passes(level, strict) and not passes(checks):
            return self._lenient_sentence(level, checks)
        counts = Counter(check.verdict for check in checks)
        name = f"level {level} of {self.round}" if self.round else f"level {level}"
        if failures := counts[Verdict.FAIL]:
            if len(checks) == 1:
                return f"{name} does not pass: the only check fails"
            fail = "fails" if failures == 1 else "fail"
            return f"{name} does not pass: {failures} of {len(checks)} checks {fail}"
        if not passes(checks):
            return f"{name} does not pass: nothing could be checked"
        manual = counts[Verdict.MANUAL]
        if not manual:
            return f"{name} passes"
        findings = "1 finding is" if manual == 1 else f"{manual} findings are"
        return f"{name} passes; {findings} for a person to judge"

    def _lenient_sentence(self, level: str, checks: Sequence[Check]) -> str:
        """The sentence on a submission whose failures the round's checker does not look for."""
        failures = sum(check.verdict is Verdict.FAIL for check in checks)
        fail = "check fails" if failures == 1 else "checks fail"
        return (
            f"level {level} of {self.round}: MLCommons' checker refuses nothing that the audit"
            f" found, and the logs are consistent; {failures} {fail} by the rules' text (--strict"
            " counts them)"
        )

    def document(self, directory: str, level: str, strict: bool = True) -> Audited:
        """The document that `--json` writes. Raises ValueError for an unknown level."""
        return Audited(
            directory=directory,
            round=self.round,
            round_chosen_by=self.round_chosen_by,
            level=level,
            strict=strict or not self.lenient,
            holds=self.passes(level, strict),
            levels=self.levels,
            results=self.results,
            checks=tuple(self.checks_for(level)),
        )
