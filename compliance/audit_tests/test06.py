"""TEST06, the tokens of language models: are the answers logged while measuring whole tokens, and
how do they end?

Unlike the official script, this project takes the end token as a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from compliance.audit_tests import answers, speed
from compliance.findings.check import judge, not_applicable
from compliance.logs import Detail, LoggedAnswers, Row, files
from compliance.rules import ComplianceTest
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Checks

_FILE = "verify_accuracy.txt"
_TOKEN_BYTES = 4
_REQUIRED = frozenset({"EOS check pass: True", "Sample length check pass: True"})
_NO_FIRST_TOKEN = "no tokens are streamed, or it is Offline, so LoadGen gets no first token"
_NO_TOKEN_COUNT = "no token latencies are measured, so LoadGen gets no token count"
_NO_END_TOKEN = (
    "no end token ends an answer: the tokenizer of these prompts has none, --eos ignore was given,"
    " or the submission does not name one"
)


class Required(NamedTuple):
    """What a system must report to LoadGen about each answer, and the bytes of a token."""

    first_token: bool
    token_count: bool
    token_bytes: int = _TOKEN_BYTES


def required_of(performance: Detail, scenario: str) -> Required:
    """Return what a system must report, by the log of its performance test."""
    streams = performance.has_tokens
    return Required(first_token=streams and scenario != "Offline", token_count=streams)


def checks(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> Checks:
    """The checks of TEST06."""
    logged, file, results = answers.checks(test, rule, subject)
    if logged is None:
        return results
    # Empty if the prompts do not come from the weights' tokenizer.
    ends = frozenset(subject.record.end_tokens if subject.record else ())
    required = required_of(subject.performance.detail, subject.scenario)
    if subject.place.run is None:
        required = required._replace(token_bytes=_token_bytes(logged))
    slug = test.slug
    faults = _token_faults(test, logged, ends, required, subject)
    whole = f"every answer consists of whole int{8 * required.token_bytes} tokens"
    several = _several_ends(logged, ends) if ends else None
    names = " or ".join(map(str, sorted(ends)))
    good = f"no answer ends with more than one of {names}"
    say = partial(_last_tokens, ends=ends)
    firsts = _wrong_first_tokens(logged, required)
    first = "each answer begins with its first token"
    lengths = _wrong_counts(logged, required)
    length = "each answer has as many tokens as reported"
    return [
        *results,
        judge(f"{slug}-tokens", faults, whole, file),
        _of_rows(f"{slug}-eos", file, several, _NO_END_TOKEN, say, good),
        _of_rows(f"{slug}-first-token", file, firsts, _NO_FIRST_TOKEN, _first_token, first),
        _of_rows(f"{slug}-token-count", file, lengths, _NO_TOKEN_COUNT, _token_count, length),
    ]


def verify_text(logged: LoggedAnswers, ends: frozenset[int], required: Required) -> str:
    """The verify_accuracy.txt of TEST06. A check that cannot be decided is Skipped; the submission
    checker accepts that only for the first token.
    """
    wrong_rows = {
        "First token check": _wrong_first_tokens(logged, required),
        "EOS check": _several_ends(logged, ends) if ends else None,
        "Sample length check": _wrong_counts(logged, required),
    }
    notes = {
        "First token check": _NO_FIRST_TOKEN,
        "EOS check": "no end token is known of this tokenizer",
        "Sample length check": _NO_TOKEN_COUNT,
    }
    lines = [
        f"{name} pass: {'Skipped' if wrong is None else not wrong}"
        for name, wrong in wrong_rows.items()
    ]
    lines.append(_verdict(_is_complete(logged, ends, required)))
    skipped = [notes[name] for name, wrong in wrong_rows.items() if wrong is None]
    if skipped:
        lines.append("; ".join(skipped))
    return "\n".join(lines) + "\n"


def _is_complete(logged: LoggedAnswers, ends: frozenset[int], required: Required) -> bool:
    """Whether there are answers, and nothing is wrong with them."""
    wrong = (
        logged.problems,
        _several_ends(logged, ends),
        _wrong_first_tokens(logged, required),
        _wrong_counts(logged, required),
    )
    return bool(logged.rows) and not any(wrong)


def _verdict(complete: bool) -> str:
    return f"TEST06 verification {'complete' if complete else 'failed'}"


def _token_faults(
    test: LoadGenRun,
    logged: LoggedAnswers,
    ends: frozenset[int],
    required: Required,
    subject: Subject,
) -> list[str]:
    faults = []
    for row in logged.rows:
        if len(row.data) % required.token_bytes or not row.data:
            faults.append(f"the answer of sample {row.index} has {len(row.data)} bytes")
    faults += _failed_checks(test, subject)
    verdict = _verdict(_is_complete(logged, ends, required))
    return faults + speed.contradictions(test, _FILE, verdict, subject)


def _of_rows(
    check_id: str,
    file: str,
    wrong: Sequence[Row] | None,
    why_not: str,
    say: Callable[[Row], str],
    good: str,
) -> Check:
    """The check that no row is wrong.

    Args:
        wrong: the wrong rows; None: the check does not apply, and `why_not` says why.
        say: returns the sentence about a wrong row.
    """
    if wrong is None:
        return not_applicable(check_id, why_not, file)
    return judge(check_id, map(say, wrong), good, file)


def _last_tokens(row: Row, ends: frozenset[int]) -> str:
    return f"the answer of sample {row.index} ends with {_end_tokens(row, ends)} end tokens"


def _first_token(row: Row) -> str:
    return f"the first token of sample {row.index} is not that of its answer"


def _token_count(row: Row) -> str:
    return (
        f"the answer of sample {row.index} has {len(row.data)} bytes, and {row.token_count or 'no'}"
        " tokens were reported"
    )


def _wrong_first_tokens(logged: LoggedAnswers, required: Required) -> Sequence[Row] | None:
    """The rows whose first token, as it was reported, is not that of the answer. None: none was
    reported, and none had to be.
    """
    if not required.first_token and all(row.first_token is None for row in logged.rows):
        return None
    return [row for row in logged.rows if not _begins(row, required.token_bytes)]


def _begins(row: Row, token_bytes: int) -> bool:
    """Whether an answer begins with what was reported as its first token. A system may report
    several tokens at once, which run_verification.py compares one by one.
    """
    first = row.first_token or b""
    return len(first) >= token_bytes and row.data[: len(first)] == first[: len(row.data)]


def _wrong_counts(logged: LoggedAnswers, required: Required) -> Sequence[Row] | None:
    """The rows whose number of tokens, as it was reported, is not that of the answer. None: none
    was reported, and none had to be.
    """
    if not required.token_count and all(row.token_count is None for row in logged.rows):
        return None
    size = required.token_bytes
    return [row for row in logged.rows if size * (row.token_count or 0) != len(row.data)]


def _token_bytes(logged: LoggedAnswers) -> int:
    """The bytes of a token in the answers of another harness. A flag of run_verification.py
    (--dtype) gives them, and only the reported counts show it.
    """
    sizes = {len(row.data) / row.token_count for row in logged.rows if row.token_count}
    return int(sizes.pop()) if len(sizes) == 1 and sizes <= {2, 8} else _TOKEN_BYTES


def _several_ends(logged: LoggedAnswers, ends: frozenset[int]) -> list[Row]:
    """The rows whose answers end with more than one end token."""
    return [row for row in logged.rows if ends and _end_tokens(row, ends) > 1]


def _failed_checks(test: LoadGenRun, subject: Subject) -> Iterator[str]:
    """Yield a sentence for each check that failed according to TEST06's own script, and for each
    that the closed division requires (submission checker, compliance_check.py).
    """
    text = files.maybe(files.text, subject.place.compliance / test.name / _FILE)
    if text is None:
        return
    lines = [line.strip() for line in text.splitlines()]
    for line in lines:
        if line.endswith("check pass: False"):
            yield f"{_FILE} says {line[:80]!r}"
    if subject.place.division == "closed":
        for line in _REQUIRED.difference(lines):
            yield f"{_FILE} does not say {line!r}, which the submission checker requires"


def _end_tokens(row: Row, ends: frozenset[int]) -> int:
    """The number of end tokens at the end of an int32 answer."""
    whole = len(row.data) // 4 * 4
    tokens = np.frombuffer(row.data[:whole], np.int32).tolist()
    count = 0
    for token in reversed(tokens):
        if token not in ends:
            break
        count += 1
    return count
