"""The check that compares the mean length of a test's answers with that of the accuracy run's
answers to the same samples.
"""

from __future__ import annotations

from collections.abc import Mapping

from compliance.audit_tests import logged_answers
from compliance.audit_tests.logged_answers import LoggedAnswers
from compliance.findings import fixes
from compliance.findings.check import Check, judge, not_applicable
from compliance.subject import Subject

_TOKEN_BYTES = 4


def check(
    logged: LoggedAnswers, answers: Mapping[int, bytes], subject: Subject, where: dict[str, str]
) -> Check:
    """The check of the mean length of generated answers. `answers` are those of the accuracy
    run.
    """
    check_id = "output-length"
    if subject.record and subject.record.cell.task == "predict":
        return not_applicable(check_id, "the model generates no tokens", **where)
    means = logged_answers.mean_length(logged.rows, answers)
    if means is None or not means[1]:
        return judge(
            check_id, ["there is no answer to take a length of"], "", **where, fix=fixes.COMPLY
        )
    test, reference, tolerance = means[0], means[1], subject.rules.output_length.tolerance
    lengths = (
        f"{test / _TOKEN_BYTES:.4g} tokens on average while measuring,"
        f" {reference / _TOKEN_BYTES:.4g} in the accuracy run"
    )
    far = abs(test - reference) > tolerance * reference
    return judge(
        check_id,
        [f"{lengths}; they may differ by {tolerance:.0%}"] if far else [],
        lengths,
        **where,
        fix=fixes.COMPLY,
    )
