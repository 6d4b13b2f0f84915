"""The checks of TEST01: whether the answers logged while measuring are those of the accuracy
run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compliance import logs
from compliance.audit_tests import logged_answers, output_length, verification, verify_files
from compliance.audit_tests.logged_answers import Compared, LoggedAnswers
from compliance.checks.accuracy import whole_log
from compliance.findings import fixes
from compliance.findings.check import Check, judge, manual
from compliance.logs import files
from compliance.subject import LoadGenRun, Subject
from formats.record import Judged


def checks(
    logged: LoggedAnswers, test: LoadGenRun, subject: Subject, where: dict[str, str]
) -> list[Check]:
    """The checks of TEST01's answers: every byte must be the accuracy run's, and the mean length
    must be close to it.
    """
    whole = whole_log(subject)
    if whole is None:
        why = (
            "the accuracy run's log is truncated, and the original is not in a submission: ask the"
            " submitter for it"
        )
        return [manual(f"{test.slug}-answers", why, **where)]
    answers, fault = files.attempt(logs.read_accuracy, whole)
    if answers is None:
        return [
            judge(
                f"{test.slug}-answers",
                [f"the accuracy run: {fault}"],
                "",
                **where,
                fix="measure the accuracy again",
            )
        ]
    compared = logged_answers.compare(logged.rows, answers.payloads)
    contradictions = verify_files.contradictions(
        test,
        "verify_accuracy.txt",
        verification.PASS if compared.exact else verification.FAIL,
        subject,
    )
    first = _compared(compared, answers.payloads, test, subject, contradictions, where)
    return [first, output_length.check(logged, answers.payloads, subject, where)]


def _compared(
    compared: Compared,
    answers: Mapping[int, bytes],
    test: LoadGenRun,
    subject: Subject,
    contradictions: list[str],
    where: dict[str, str],
) -> Check:
    check_id = f"{test.slug}-answers"
    faults = [
        f"sample {index} has no answer in the accuracy run" for index in compared.unknown[:3]
    ] + contradictions
    if not compared.equal and not compared.different:
        faults.append("there is no answer to compare; there must be one at least")
    if faults or not compared.different:
        return judge(
            check_id,
            faults,
            f"{compared.equal} of {compared.equal} are the accuracy run's, every byte",
            **where,
            fix=fixes.COMPLY,
        )
    difference = (
        f"{len(compared.different)} of {compared.equal + len(compared.different)} are not the"
        f" accuracy run's bytes (first sample {compared.different[0].index})"
    )
    record = subject.record
    if subject.place.run is None or record is None or record.no_reference:
        why = (
            "a submission holds no reference"
            if subject.place.run is None
            else record.accuracy.reason
            if record
            else subject.no_record
        )
        return manual(
            check_id, f"{difference}, and nothing is there to judge them by: {why}", **where
        )
    score, why = files.attempt(
        lambda run: _scored(compared, answers, run, record.accuracy), subject.place.run
    )
    if score is None:
        return judge(
            check_id,
            [f"{difference}, and they cannot be scored: {why}"],
            "",
            **where,
            fix=fixes.COMPLY,
        )
    within = (
        f"with them the accuracy run scores {score.metric} {score.value:.5g}, at most"
        f" {score.threshold:g}"
    )
    limits = ", ".join(
        f"{key.replace('_', ' ')} {value:.5g}" for key, value in score.detail.items()
    )
    faults = [] if score.passed else [f"{difference}; {within}, and does not pass ({limits})"]
    return judge(
        check_id, faults, f"{difference}; {within}: within the tolerance", **where, fix=fixes.COMPLY
    )


def _scored(compared: Compared, answers: Mapping[int, bytes], run: Path, judged: Judged) -> Any:
    forced = run / "raw" / "accuracy" / "logits.npy"
    return verification.worst(
        compared.different,
        answers,
        judged,
        files.arrays(run / "reference.npz"),
        files.array(forced) if forced.exists() else None,
    )
