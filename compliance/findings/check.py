"""Functions that make a check, which is one finding of the audit. If a check cannot be decided, it
does not pass: it is N/A or MANUAL, with the reason.

A check has a name and an id, a slug such as `performance-evidence`. Code, filters, JSON, the page's
anchors and tests use the id, so that the name can be reworded. An id is never changed and never
given to another check. checks.toml lists every id with its rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from compliance.findings import registry
from formats.checks import Check, Checks, Fault, Verdict

_SHOWN_FAULTS = 5
_KEPT_FAULTS = 100
_LONGEST_VALUE = 200
_LONGEST_SENTENCE = 1000


def mismatch(
    what: str,
    found: Any,
    expected: Any,
    who: str = "the rule requires",
    *,
    file: str = "",
    line: int | None = None,
) -> Fault:
    """A fault about two values, with the sentence "`what` is `found`; `who` `expected`"."""
    sentence = "{what} is {found}; {who} {expected}"
    return differs(sentence, found, expected, file=file, line=line, what=what, who=who)


def differs(
    sentence: str,
    found: Any,
    expected: Any,
    *,
    file: str = "",
    line: int | None = None,
    **words: Any,
) -> Fault:
    """A fault about two values. The sentence has `{found}` and `{expected}` in their places, and
    the other `words` in theirs.
    """
    values = {"found": shorten(found), "expected": shorten(expected)}
    text = sentence.format(**values, **words)
    return Fault(text, values["expected"], values["found"], file, line)


def shorten(value: Any, most: int = _LONGEST_VALUE) -> str:
    """A value as text of at most `most` characters. A forged value may have megabytes. A value that
    is not there is `missing`.
    """
    text = "missing" if value is None else str(value)
    return text if len(text) <= most else f"{text[:most]}…"


def quoted(value: Any) -> str:
    """A value as text, in quotes if it is text. A value that is not there is `missing`."""
    return shorten(value) if value is None else repr(value)


def judge(
    check_id: str, faults: Iterable[Fault | str], good: str = "", file: str = "", *, fix: str = ""
) -> Check:
    """A check that fails if there is any fault, and passes otherwise.

    Args:
        check_id: its id in checks.toml, where its name, rules and level are.
        faults: the faults; a text becomes a fault with this sentence. The detail contains the first
            five.
        good: the detail if the check passes.
        fix: how to correct a failure, if not as checks.toml says.
    """
    fix = fix or registry.get(check_id).fix
    kept, left_out = _kept(faults, file)
    if not kept:
        return _check(check_id, Verdict.PASS, shorten(good, _LONGEST_SENTENCE), file, fix)
    more = len(kept) + left_out - _SHOWN_FAULTS
    detail = "; ".join(fault.text for fault in kept[:_SHOWN_FAULTS])
    if more > 0:
        detail += f" (and {more} more)"
    return _check(check_id, Verdict.FAIL, detail, file, fix, kept, left_out)


def failed(check_id: str, why: Fault | str, file: str = "", *, fix: str = "") -> Check:
    """A check with one fault."""
    return judge(check_id, [why], file=file, fix=fix)


def not_applicable(check_id: str, why: str, file: str = "", *, fix: str = "") -> Check:
    """A check that does not apply to this directory."""
    return _check(check_id, Verdict.NA, shorten(why, _LONGEST_SENTENCE), file, fix)


def manual(
    check_id: str, why: str, *, reasons: Iterable[str] = (), file: str = "", fix: str = ""
) -> Check:
    """A check that a person has to judge.

    Args:
        reasons: the single sentences that `why` joins.
    """
    detail = shorten(why, 5 * _LONGEST_SENTENCE)
    return _check(check_id, Verdict.MANUAL, detail, file, fix, *_kept(reasons, file))


def _check(
    check_id: str,
    verdict: Verdict,
    detail: str,
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
        rule=entry.rule,
        source=entry.source,
        file=file,
        fix=fix,
        faults=faults,
        faults_left_out=faults_left_out,
    )


def fail_or_manual(
    check_id: str,
    faults: Iterable[Fault | str],
    doubts: Iterable[Fault],
    good: str,
    file: str = "",
    *,
    show: str,
    of_a_run: bool,
) -> Check:
    """A check whose `doubts` fail a run directory. In a bare submission, which may have a reason
    for them, a person has to judge them.

    Args:
        faults: the faults that fail a run directory and a bare submission alike.
        good: the detail if the check passes.
        show: what the submitter has to show to a person.
        of_a_run: whether the audited folder is inside a run directory.
    """
    doubtful = list(doubts)
    check = judge(check_id, [*faults, *(doubtful if of_a_run else [])], good, file)
    if not doubtful or check.verdict is Verdict.FAIL:
        return check
    reasons = [fault.text for fault in doubtful]
    fix = f"ask the submitter to show that {show}"
    return manual(check_id, "; ".join(reasons[:5]), reasons=reasons, file=file, fix=fix)


def _kept(faults: Iterable[Fault | str], file: str) -> tuple[tuple[Fault, ...], int]:
    """(the first hundred faults, how many more there are). A kept fault has a bounded length, and
    the check's file if it names none.
    """
    kept = []
    count = 0
    for count, each in enumerate(faults, 1):
        if count <= _KEPT_FAULTS:
            fault = Fault(each) if isinstance(each, str) else each
            text = shorten(fault.text, _LONGEST_SENTENCE)
            kept.append(replace(fault, text=text, file=fault.file or file))
    return tuple(kept), count - len(kept)


def placed(checks: Iterable[Check], place: str) -> Checks:
    """The checks of one scenario's or submitter's folder, for a submission with several."""
    return [replace(check, place=place) for check in checks]
