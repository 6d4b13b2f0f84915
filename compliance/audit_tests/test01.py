"""TEST01, the answers while measuring: LoadGen logs some answers of a performance test. They must
be the accuracy run's answers.

Unlike the official script, this project compares every byte of an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from compliance import logs
from compliance.audit_tests import answers, speed
from compliance.audit_tests.speed import FAIL, PASS
from compliance.checks.submission.accuracy import whole_log
from compliance.findings.check import failed, judge, manual, not_applicable
from compliance.logs import LoggedAnswers, Row, files
from compliance.rules import ComplianceTest
from compliance.scoring import of_run
from compliance.scoring.value import AnswerBytes
from compliance.subject import NO_RECORD, LoadGenRun, Subject
from formats.checks import Check, Checks

_FILE = "verify_accuracy.txt"
_TOKEN_BYTES = 4
_CUT = (
    "the accuracy run's log is truncated, and a submission does not contain the original: ask the"
    " submitter for it"
)


@dataclass(frozen=True)
class Compared:
    """A test's answers compared with the accuracy run's.

    Attributes:
        equal: the number of answers that are the same in every byte.
        different: the rows with other bytes.
        unknown: the indices of samples that the accuracy run did not answer.
    """

    equal: int
    different: tuple[Row, ...]
    unknown: tuple[int, ...]

    @property
    def exact(self) -> bool:
        """True if there are answers, and each one equals the accuracy run's answer to the same
        sample.
        """
        return bool(self.equal) and not self.different and not self.unknown


def compare(rows: tuple[Row, ...], answers: AnswerBytes) -> Compared:
    """Compare the rows with the accuracy run's answers. `answers`: index in the query sample
    library → the answered bytes.
    """
    answered = [row for row in rows if row.index in answers]
    different = tuple(row for row in answered if answers[row.index] != row.data)
    unknown = tuple(row.index for row in rows if row.index not in answers)
    return Compared(len(answered) - len(different), different, unknown)


def checks(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Checks:
    """The checks of TEST01: its speed, every byte of its answers, and their mean length."""
    logged, file, results = answers.checks(test, rule, subject)
    results = [speed.check(test, rule, subject), *results]
    if logged is None:
        return results
    check_id = f"{test.slug}-answers"
    whole = whole_log(subject)
    if whole is None:
        return [*results, manual(check_id, _CUT, file=file)]
    reference, fault = files.attempt(logs.read_accuracy, whole)
    if reference is None:
        fix = "measure the accuracy again"
        return [*results, failed(check_id, f"the accuracy run: {fault}", file, fix=fix)]
    payloads = reference.payloads
    compared = compare(logged.rows, payloads)
    verdict = PASS if compared.exact else FAIL
    contradictions = speed.contradictions(test, _FILE, verdict, subject)
    return [
        *results,
        _bytes(check_id, compared, payloads, subject, contradictions, file),
        _output_length(logged, payloads, subject, file),
    ]


def verify_text(compared: Compared, entries: int) -> str:
    """The verify_accuracy.txt of TEST01. `entries` is the number of answers in the accuracy run's
    log.
    """
    different = len(compared.different)
    unknown = len(compared.unknown)
    known = compared.equal + different
    verdict = PASS if compared.exact else FAIL
    return f"""\
Verifying accuracy: every byte of every logged answer.
num_acc_log_entries = {entries}
num_perf_log_entries = {known + unknown}
num_perf_log_qsl_idx_match = {known}
num_perf_log_data_mismatch = {different}
num_missing_qsl_idxs = {unknown}
{verdict}
"""


def _bytes(
    check_id: str,
    compared: Compared,
    answers: AnswerBytes,
    subject: Subject,
    contradictions: list[str],
    file: str,
) -> Check:
    """The check of the answers' bytes. If some differ, they are scored."""
    faults = [f"sample {i} has no answer in the accuracy run" for i in compared.unknown[:3]]
    faults += contradictions
    different = compared.different
    equal = compared.equal
    if not equal and not different:
        faults.append("there is no answer to compare; at least one must be there")
    if faults or not different:
        good = f"every byte of {equal} answers is the accuracy run's"
        return judge(check_id, faults, good, file)
    count = equal + len(different)
    difference = (
        f"{len(different)} of {count} are not the accuracy run's bytes (first sample"
        f" {different[0].index})"
    )
    if why := _no_reference(subject):
        return manual(check_id, f"{difference}, and there is no reference: {why}", file=file)
    run = subject.place.run
    record = subject.record
    assert run is not None and record is not None
    others = [(row.index, row.data) for row in different]
    benchmarks = subject.rules.benchmarks
    score = partial(of_run.with_others, run, record, benchmarks, answers, others, count)
    found, fault = files.reckon(score)
    if found is None:
        return failed(check_id, f"{difference}, and cannot be scored: {fault}", file)
    passed, text = found
    scored = f"{difference}; with them {text}"
    if passed:
        return judge(check_id, [], f"{scored}: within the tolerance", file)
    return failed(check_id, scored, file)


def _no_reference(subject: Subject) -> str:
    """Why answers cannot be scored; empty if they can."""
    if subject.place.run is None:
        return "a submission does not contain it"
    if subject.record is None:
        return NO_RECORD
    if subject.record.official or not subject.record.no_reference:
        return ""
    return subject.record.accuracy.reason


def _output_length(
    logged: LoggedAnswers, answers: AnswerBytes, subject: Subject, file: str
) -> Check:
    """The check of the mean length of generated answers.

    Args:
        answers: those of the accuracy run.
        file: the test's log of answers.
    """
    if subject.record and subject.record.cell.task == "predict":
        return not_applicable("output-length", "the model generates no tokens", file)
    answered = [row for row in logged.rows if row.index in answers]
    test = sum(len(row.data) for row in answered)
    reference = sum(len(answers[row.index]) for row in answered)
    if not reference:
        return failed("output-length", "there is no answer whose length can be compared", file)
    tolerance = subject.rules.output_length.tolerance
    token_bytes = _TOKEN_BYTES * len(answered)
    lengths = (
        f"{test / token_bytes:.4g} tokens on average while measuring,"
        f" {reference / token_bytes:.4g} in the accuracy run"
    )
    faults = []
    if abs(test - reference) > tolerance * reference:
        faults.append(f"{lengths}; they may differ by {tolerance:.0%}")
    return judge("output-length", faults, lengths, file)
