"""The mean length of TEST01's answers, compared with that of the accuracy run's answers to the same
samples.
"""

from __future__ import annotations

from compliance.audit_tests import check, logged_answers
from compliance.audit_tests.logged_answers import LoggedAnswers
from compliance.findings.check import not_applicable
from compliance.scoring.value import AnswerBytes
from compliance.subject import Subject
from formats.checks import Check

_ID = "output-length"
_TOKEN_BYTES = 4


def judge(logged: LoggedAnswers, answers: AnswerBytes, subject: Subject, file: str) -> Check:
    """The check of the mean length of generated answers.

    Args:
        answers: those of the accuracy run.
        file: the test's log of answers.
    """
    if subject.record and subject.record.cell.task == "predict":
        return not_applicable(_ID, "the model generates no tokens", file=file)
    means = logged_answers.mean_length(logged.rows, answers)
    if means is None or not means[1]:
        return check.judge(_ID, ["there is no answer whose length can be compared"], "", file)
    test, reference = means
    tolerance = subject.rules.output_length.tolerance
    lengths = (
        f"{test / _TOKEN_BYTES:.4g} tokens on average while measuring,"
        f" {reference / _TOKEN_BYTES:.4g} in the accuracy run"
    )
    faults = []
    if abs(test - reference) > tolerance * reference:
        faults.append(f"{lengths}; they may differ by {tolerance:.0%}")
    return check.judge(_ID, faults, lengths, file)
