"""TEST06, the tokens of language models: are the answers logged while measuring whole tokens, and
how do they end?

Unlike the official script, this project takes the end token as a number.
"""

from __future__ import annotations

from collections.abc import Iterator

from compliance.audit_tests import answers, check, logged_answers, verify_files
from compliance.audit_tests.logged_answers import LoggedAnswers, Row
from compliance.findings.check import not_applicable
from compliance.logs import files
from compliance.rules import ComplianceTest
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check
from formats.job import Job

_FILE = "verify_accuracy.txt"
_TOKEN_BYTES = 4
_NO_FIRST_TOKEN = "no tokens are streamed, so LoadGen gets no first token"
_NO_TOKEN_COUNT = "no token latencies are measured, so LoadGen gets no token count"
_NO_END_TOKEN = (
    "no end token ends an answer: the tokenizer of these prompts has none, --eos ignore was given,"
    " or the submission does not name one"
)


def inapplicable(job: Job, samples: int) -> str:
    """Why TEST06 does not apply to a job; empty if it applies."""
    return "" if job.workload.task == "generate" else "the model generates no tokens"


def checks(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> list[Check]:
    """The checks of TEST06. Those of first tokens and token counts do not apply, because no SUT of
    this project streams tokens or reports counts.
    """
    log, results = answers.checks(test, rule, subject)
    if log is None:
        return results
    ends = _end_tokens(subject)
    return [
        *results,
        _tokens(test, log, ends, subject),
        _last_tokens(test, log, ends, subject),
        not_applicable(f"{test.slug}-first-token", _NO_FIRST_TOKEN, file=log.file),
        not_applicable(f"{test.slug}-token-count", _NO_TOKEN_COUNT, file=log.file),
    ]


def verify_text(logged: LoggedAnswers, ends: frozenset[int]) -> str:
    """The verify_accuracy.txt of TEST06. A check that cannot be decided is Skipped; the submission
    checker accepts that only for the first token.
    """
    several = _several_ends(logged, ends)
    whole = logged.rows and not logged.problems and not several
    eos = f"{not several}" if ends else "Skipped"
    notes = [_NO_FIRST_TOKEN, _NO_TOKEN_COUNT]
    if not ends:
        notes.append("no end token is known of this tokenizer")
    return f"""\
First token check pass: Skipped
EOS check pass: {eos}
Sample length check pass: Skipped
{_verdict(bool(whole))}
{"; ".join(notes)}
"""


def _verdict(complete: bool) -> str:
    return f"TEST06 verification {'complete' if complete else 'failed'}"


def _tokens(test: LoadGenRun, log: answers.Log, ends: frozenset[int], subject: Subject) -> Check:
    faults = []
    for row in log.answers.rows:
        if len(row.data) % _TOKEN_BYTES or not row.data:
            faults.append(f"the answer of sample {row.index} has {len(row.data)} bytes")
    complete = not _several_ends(log.answers, ends) and not log.answers.problems
    faults += _failed_checks(test, subject)
    faults += verify_files.contradictions(test, _FILE, _verdict(complete), subject)
    good = "every answer consists of whole int32 tokens"
    return check.judge(f"{test.slug}-tokens", faults, good, log.file)


def _last_tokens(
    test: LoadGenRun, log: answers.Log, ends: frozenset[int], subject: Subject
) -> Check:
    check_id = f"{test.slug}-eos"
    if not ends:
        return not_applicable(check_id, _NO_END_TOKEN, file=log.file)
    faults = []
    for row in _several_ends(log.answers, ends):
        count = logged_answers.end_tokens(row, ends)
        faults.append(f"the answer of sample {row.index} ends with {count} end tokens")
    names = " or ".join(map(str, sorted(ends)))
    return check.judge(check_id, faults, f"no answer ends with more than one of {names}", log.file)


def _several_ends(logged: LoggedAnswers, ends: frozenset[int]) -> list[Row]:
    """The rows whose answers end with more than one end token."""
    return [row for row in logged.rows if ends and logged_answers.end_tokens(row, ends) > 1]


def _end_tokens(subject: Subject) -> frozenset[int]:
    """The tokenizer's end tokens, by record.json. Empty if the prompts do not come from the
    weights' tokenizer.
    """
    return frozenset(subject.record.end_tokens if subject.record else ())


def _failed_checks(test: LoadGenRun, subject: Subject) -> Iterator[str]:
    """Yield a sentence for each check that failed according to TEST06's own script."""
    text, _ = files.attempt(files.text, subject.place.compliance / test.name / _FILE)
    for line in (text or "").splitlines():
        if line.strip().endswith("check pass: False"):
            yield f"{_FILE} says {line[:80]!r}"
