"""The checks of TEST06: whether the answers logged while measuring are whole tokens, and how they
end.
"""

from __future__ import annotations

from collections.abc import Iterator

from compliance.audit_tests import logged_answers, verification, verify_files
from compliance.audit_tests.logged_answers import LoggedAnswers
from compliance.findings import fixes
from compliance.findings.check import Check, judge, not_applicable
from compliance.logs import files
from compliance.subject import LoadGenRun, Subject

_TOKEN_BYTES = 4


def checks(
    logged: LoggedAnswers, test: LoadGenRun, subject: Subject, where: dict[str, str]
) -> list[Check]:
    """The checks of TEST06. Those of first tokens and token counts do not apply, because no SUT of
    this project streams tokens or reports counts.
    """
    ends = _end_tokens(subject)
    faults = [
        f"the answer of sample {row.index} has {len(row.data)} bytes"
        for row in logged.rows
        if len(row.data) % _TOKEN_BYTES or not row.data
    ]
    both = [
        f"the answer of sample {row.index} ends with {logged_answers.end_tokens(row, ends)} end"
        " tokens"
        for row in verification.two_ends(logged, ends)
    ]
    contradictions = [
        *_failed_checks(test, subject),
        *verify_files.contradictions(
            test,
            "verify_accuracy.txt",
            f"TEST06 verification {'failed' if both or logged.problems else 'complete'}",
            subject,
        ),
    ]
    whole = judge(
        f"{test.slug}-tokens",
        [*faults, *contradictions],
        "every answer is of whole int32 tokens",
        **where,
        fix=fixes.COMPLY,
    )
    if ends:
        last = judge(
            f"{test.slug}-eos",
            both,
            f"no answer ends with more than one of {_named(ends)}",
            **where,
            fix=fixes.COMPLY,
        )
    else:
        why = (
            "no end token ends an answer: there is none in these prompts' tokenizer, --eos ignore"
            " was given, or the submission does not say"
        )
        last = not_applicable(f"{test.slug}-eos", why, **where)
    return [
        whole,
        last,
        not_applicable(f"{test.slug}-first-token", verification.NO_FIRST_TOKEN, **where),
        not_applicable(f"{test.slug}-token-count", verification.NO_TOKEN_COUNT, **where),
    ]


def _named(ends: frozenset[int]) -> str:
    return " or ".join(map(str, sorted(ends)))


def _end_tokens(subject: Subject) -> frozenset[int]:
    """The tokenizer's end tokens, by record.json. Empty if the prompts do not come from the
    weights' tokenizer.
    """
    return frozenset(subject.record.end_tokens if subject.record else ())


def _failed_checks(test: LoadGenRun, subject: Subject) -> Iterator[str]:
    """Yield a sentence for each check that failed according to TEST06's own script."""
    text, _ = files.attempt(
        files.text, subject.place.compliance / test.name / "verify_accuracy.txt"
    )
    yield from (
        f"verify_accuracy.txt says {line[:80]!r}"
        for line in (text or "").splitlines()
        if line.strip().endswith("check pass: False")
    )
