"""A check: one finding of the audit. If a check cannot be decided, it does not pass: it is N/A or
MANUAL, with the reason.

A check has a name and an id, a slug such as `performance-evidence`. Code, filters, JSON, the page's
anchors and tests use the id, so that the name can be reworded. An id is never changed and never
given to another check. checks.toml lists every id with its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from compliance.findings import registry
from compliance.rules import sources

_SHOWN_FAULTS, _KEPT_FAULTS = 5, 100
_LONGEST_VALUE, _LONGEST_SENTENCE = 200, 1000


class Verdict(StrEnum):
    """How a check ends."""

    PASS = "PASS"
    FAIL = "FAIL"
    MANUAL = "MANUAL"
    """A person has to judge. It never fails a level."""
    NA = "N/A"
    """The check does not apply to this directory; its detail says why."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        text: the whole sentence.
        expected, found: the two values, if the sentence compares two; else empty.
        file: the file that is wrong, relative to the audited directory; empty: the check's file.
        line: the number of the line in the file, from 1.
    """

    text: str
    expected: str = ""
    found: str = ""
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Check:
    """One rule applied to one directory.

    Attributes:
        id: the stable slug, see checks.toml; unique among the checks of one place.
        name: what was looked at, in a few words for a reader.
        verdict: how it ended.
        detail: one sentence that says what was seen and, for a failure, what the rule requires.
        level: the lowest level that requires it: `quick`, `valid` or `submission`.
        rule_ids: the rules it applies, as ids of sources.toml.
        file: the file it is about, relative to the audited directory.
        fix: what to do about a failure.
        faults: each thing that is wrong, or that a person has to judge; the first hundred.
        faults_left_out: how many more there are.
        place: the scenario's or submitter's folder, if several are audited together; else empty.
    """

    id: str
    name: str
    verdict: Verdict
    detail: str
    level: str = "quick"
    rule_ids: tuple[str, ...] = ()
    file: str = ""
    fix: str = ""
    faults: tuple[Fault, ...] = ()
    faults_left_out: int = 0
    place: str = ""

    @property
    def key(self) -> str:
        """The place and the id, which are unique in the report of one audit."""
        return f"{self.place}/{self.id}" if self.place else self.id

    @property
    def title(self) -> str:
        """The place and the name, as a reader sees them."""
        return f"{self.place}: {self.name}" if self.place else self.name

    @property
    def rule(self) -> str:
        """The sentences that say what the rules require, as one text. Empty if the check applies a
        convention of this project.
        """
        return " ".join(sources.get(rule_id).rule for rule_id in self.rule_ids)

    @property
    def source(self) -> str:
        """The documents and sections where the rules are written."""
        return "; ".join(
            dict.fromkeys(
                cited for rule_id in self.rule_ids for cited in sources.get(rule_id).cited
            )
        )

    def line(self) -> str:
        """The check as a terminal shows it, in one line."""
        return escape(f"[{self.verdict}] {self.title}: {self.detail}")

    def as_json(self) -> dict[str, Any]:
        """The check as `--json` writes it; see schemas/checks.json."""
        return {
            "id": self.id,
            "name": self.name,
            "verdict": str(self.verdict),
            "detail": self.detail,
            "level": self.level,
            "rule_ids": list(self.rule_ids),
            "rule": self.rule,
            "source": self.source,
            "file": self.file,
            "fix": self.fix,
            "faults": [asdict(fault) for fault in self.faults],
            "faults_left_out": self.faults_left_out,
            "place": self.place,
        }


def mismatch(
    what: str,
    found: Any,
    expected: Any,
    who: str = "the rule wants",
    *,
    file: str = "",
    line: int | None = None,
) -> Fault:
    """A fault about two values, with the sentence "`what` is `found`; `who` `expected`"."""
    is_found, is_expected = shorten(found), shorten(expected)
    return Fault(f"{what} is {is_found}; {who} {is_expected}", is_expected, is_found, file, line)


def shorten(value: Any, most: int = _LONGEST_VALUE) -> str:
    """A value as text of at most `most` characters. A forged value may have megabytes."""
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}…"


def escape(text: str) -> str:
    """The text with every unprintable character written as an escape.

    Anybody can write names and logs. A character in them might move a terminal's cursor, end a line
    or reverse the direction of writing.
    """
    if text.isprintable():
        return text
    escaped = [c if c.isprintable() else c.encode("unicode_escape").decode() for c in text]
    return "".join(escaped)


def judge(
    check_id: str, faults: Iterable[Fault | str], good: str, *, file: str = "", fix: str = ""
) -> Check:
    """A check that fails if there is any fault, and passes otherwise.

    Args:
        check_id: its id in checks.toml, where its name, rules and level are.
        faults: the faults; a text becomes a fault with this sentence. The detail contains the first
            five.
        good: the detail if the check passes: what was seen.
    """
    kept, left_out = _kept(faults, file)
    if not kept:
        return _check(check_id, Verdict.PASS, shorten(good, _LONGEST_SENTENCE), file=file, fix=fix)
    more = len(kept) + left_out - _SHOWN_FAULTS
    detail = "; ".join(fault.text for fault in kept[:_SHOWN_FAULTS]) + (
        f" (and {more} more)" if more > 0 else ""
    )
    return _check(
        check_id, Verdict.FAIL, detail, file=file, fix=fix, faults=kept, faults_left_out=left_out
    )


def not_applicable(check_id: str, why: str, *, file: str = "", fix: str = "") -> Check:
    """A check that does not apply to this directory."""
    return _check(check_id, Verdict.NA, shorten(why, _LONGEST_SENTENCE), file=file, fix=fix)


def manual(
    check_id: str, why: str, *, reasons: Iterable[str] = (), file: str = "", fix: str = ""
) -> Check:
    """A check that a person has to judge.

    Args:
        reasons: the single sentences that `why` joins.
    """
    kept, left_out = _kept(reasons, file)
    return _check(
        check_id,
        Verdict.MANUAL,
        shorten(why, 5 * _LONGEST_SENTENCE),
        file=file,
        fix=fix,
        faults=kept,
        faults_left_out=left_out,
    )


def _check(
    check_id: str,
    verdict: Verdict,
    detail: str,
    *,
    file: str,
    fix: str,
    faults: tuple[Fault, ...] = (),
    faults_left_out: int = 0,
) -> Check:
    entry = registry.get(check_id)
    return Check(
        id=check_id,
        name=entry.name,
        verdict=verdict,
        detail=detail,
        level=entry.level,
        rule_ids=entry.rules,
        file=file,
        fix=fix,
        faults=faults,
        faults_left_out=faults_left_out,
    )


def fail_or_manual(
    make_check: Callable[..., Check],
    faults: Iterable[Fault | str],
    doubts: Iterable[Fault],
    show: str,
    *,
    of_a_run: bool,
) -> Check:
    """A check whose `doubts` fail a run directory. In a bare submission, which may have a reason
    for them, a person has to judge them.

    Args:
        make_check: `judge` with all arguments except `faults`.
        faults: the faults that fail a run directory and a bare submission alike.
        show: what the submitter has to show to a person.
        of_a_run: whether the audited folder is inside a run directory.
    """
    doubtful = list(doubts)
    check = make_check(faults=[*faults, *(doubtful if of_a_run else [])])
    if not doubtful or check.verdict is Verdict.FAIL:
        return check
    why = "; ".join(fault.text for fault in doubtful[:5])
    reasons = [fault.text for fault in doubtful]
    return manual(
        check.id,
        why,
        reasons=reasons,
        file=check.file,
        fix=f"ask the submitter to show that {show}",
    )


def _kept(faults: Iterable[Fault | str], file: str) -> tuple[tuple[Fault, ...], int]:
    """(the first hundred faults, how many more there are). A kept fault has a bounded length, and
    the check's file if it names none.
    """
    kept, count = [], 0
    for count, each in enumerate(faults, 1):
        if count <= _KEPT_FAULTS:
            fault = Fault(each) if isinstance(each, str) else each
            kept.append(
                replace(fault, text=shorten(fault.text, _LONGEST_SENTENCE), file=fault.file or file)
            )
    return tuple(kept), count - len(kept)


def placed(checks: Iterable[Check], place: str) -> list[Check]:
    """The checks of one scenario's or submitter's folder, for a submission with several."""
    return [replace(check, place=place) for check in checks]
