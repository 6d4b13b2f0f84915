"""The checks of a compliance test's log of answers: whether it is whole, and contains the samples
that LoadGen selects.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from compliance import logs
from compliance.audit_tests import logged_answers, test01, test06, verification, verify_files
from compliance.audit_tests.logged_answers import LoggedAnswers, Row
from compliance.checks import benchmark
from compliance.findings import fixes
from compliance.findings.check import Check, judge, manual
from compliance.loadgen import counts, sample_order, sampling
from compliance.loadgen.random import MOST_SAMPLES, Draws
from compliance.logs import files
from compliance.rules import ComplianceTest
from compliance.subject import LoadGenRun, Subject

_LOG = "mlperf_log_accuracy.json"


def checks(test: LoadGenRun, rule: ComplianceTest, subject: Subject) -> list[Check]:
    """The checks of a test's log of answers; empty for a test that logs none. The whole log is in
    raw/, or submitted if it is short.
    """
    if not rule.sampling_target:
        return []
    submitted = subject.place.compliance / test.name / "accuracy" / _LOG
    path = (
        (subject.place.run / "raw" / test.name / _LOG)
        if subject.place.run is not None
        else submitted
    )
    answers, fault = files.attempt(logged_answers.read, path)
    where = {"file": subject.place.show(path)}
    if subject.place.run is None and _is_cut(submitted, subject):
        return [_ends(test, submitted, subject, where)]
    if answers is None:
        return [judge(f"{test.slug}-answers", [fault], "", **where, fix=fixes.COMPLY)]
    checks = [_hash(test, rule, path, submitted, subject)] if subject.place.run is not None else []
    checks.append(
        judge(
            f"{test.slug}-samples",
            _samples(answers, test, subject),
            _summary(answers),
            **where,
            fix=fixes.COMPLY,
        )
    )
    if test.name == "TEST06":
        return checks + test06.checks(answers, test, subject, where)
    return checks + test01.checks(answers, test, subject, where)


def _is_cut(path: Path, subject: Subject) -> bool:
    """Whether a submitted log is truncated."""
    content, _ = files.attempt(files.whole_bytes, path)
    return content is not None and subject.rules.truncation.joint.encode() in content


def _ends(test: LoadGenRun, path: Path, subject: Subject, where: dict[str, str]) -> Check:
    """The check of a truncated log: its rows, its hash and the official script's verdict. A person
    has to judge the answers themselves.
    """
    check_id = f"{test.slug}-answers"
    if faults := list(_cut_faults(test, path, subject)):
        return judge(check_id, faults, "", **where, fix=fixes.COMPLY)
    why = "the log of answers is truncated, and the original is not in a submission"
    return manual(
        check_id,
        why,
        **where,
        fix="ask the submitter for the whole log, and compare it with the whole accuracy log",
    )


def _cut_faults(test: LoadGenRun, path: Path, subject: Subject) -> Iterator[str]:
    cut, content = subject.rules.truncation, files.attempt(files.whole_bytes, path)[0] or b""
    size, joint = 2 * cut.keep_bytes + len(cut.joint.encode()), cut.joint.encode()
    if len(content) != size or content.count(joint) != 1 or content.find(joint) != cut.keep_bytes:
        yield (
            f"{len(content)} bytes; a truncated log is its first and last {cut.keep_bytes} with"
            f" {cut.joint!r} between: {size} bytes"
        )
        return
    rows = logs.read_ends(content[: cut.keep_bytes], content[-cut.keep_bytes :], repeats=True)
    yield from rows.problems
    text, fault = files.attempt(files.text, path.with_name("accuracy.txt"))
    hashes = [
        line.removeprefix("hash=") for line in (text or "").splitlines() if line.startswith("hash=")
    ]
    if len(hashes) != 1 or not files.is_sha256(hashes[0]):
        known = ", ".join(hashes) or "no hash"
        yield fault or f"accuracy.txt says {known}; it has one line of hash=<sha256>"
    texts = [
        files.attempt(files.text, path.parent / f"{word}_accuracy.txt")[0]
        for word in ("baseline", "compliance")
    ]
    contradictions = verify_files.contradictions(
        test, "verify_accuracy.txt", verification.PASS, subject
    )
    if (
        contradictions and None not in texts and subject.place.division != "open"
    ):  # a SUT that is not deterministic is judged by its accuracy only
        yield from benchmark.far_apart(subject, texts)
    elif None in texts:
        yield from contradictions
    # A row may be longer than the part that truncation keeps.
    if test.detail.values and rows.seq_ids and not rows.problems:
        remainder = LoggedAnswers(
            tuple(Row(a, b, b"") for a, b in zip(rows.seq_ids, rows.indices, strict=True)), ()
        )
        yield from _samples(remainder, test, subject, whole=False)


def _hash(
    test: LoadGenRun, rule: ComplianceTest, whole: Path, submitted: Path, subject: Subject
) -> Check:
    """The check that the submitted log is the raw one, or is its head and tail with the whole log's
    hash in accuracy.txt.
    """
    where = {"file": subject.place.show(submitted), "fix": fixes.COMPLY}
    return judge(
        f"{test.slug}-hash",
        _cut(rule, whole, submitted, subject),
        "the submitted log of answers is the raw one",
        **where,
    )


def _cut(rule: ComplianceTest, whole: Path, submitted: Path, subject: Subject) -> Iterator[str]:
    content, fault = files.attempt(files.whole_bytes, submitted)
    original, raw_fault = files.attempt(files.whole_bytes, whole)
    cut = subject.rules.truncation
    if content is None or original is None:
        yield fault or raw_fault
    elif content != original and not (rule.truncated and content == cut.cut(original)):
        yield f"it is not the raw log{', nor its head and tail' if rule.truncated else ''}"
    elif rule.truncated and len(content) > cut.limit_bytes:
        yield f"{len(content)} bytes; at most {cut.limit_bytes}"
    if not rule.truncated:
        return
    text, fault = files.attempt(files.text, submitted.with_name("accuracy.txt"))
    hashes = [
        line.removeprefix("hash=") for line in (text or "").splitlines() if line.startswith("hash=")
    ]
    digest, _ = files.attempt(files.sha256, whole)
    if hashes != [digest] or not files.is_sha256(digest):
        yield (
            fault
            or f"accuracy.txt says {', '.join(hashes) or 'no hash'}; the whole log has {digest}"
        )


def _summary(answers: LoggedAnswers) -> str:
    return (
        f"{len(answers.rows)} answers of {len({row.index for row in answers.rows})} samples, those"
        " that LoadGen chooses"
    )


def _samples(
    answers: LoggedAnswers, test: LoadGenRun, subject: Subject, whole: bool = True
) -> Iterator[str]:
    """Yield a sentence for each difference between the logged answers and LoadGen's selection.

    Args:
        whole: whether `answers` are all logged answers.
    """
    yield from answers.problems
    if not answers.rows:
        yield "no answer was logged; there must be one at least"
        return
    loaded = subject.performance.detail.get("loaded_qsl_set")
    strange = {row.index for row in answers.rows} - set(loaded if isinstance(loaded, list) else ())
    if strange:
        yield f"sample {min(strange)} was not loaded, and has an answer"
        return
    if not test.detail.values:
        return
    rate, seed = (
        sampling.selection_rate(test.detail, subject.scenario),
        test.detail.get("effective_accuracy_log_rng_seed"),
    )
    if rate is None or type(seed) is not int or seed < 0:
        yield "a count, the sampling target or its seed is missing from the detail log"
        return
    count, share = rate
    if count > MOST_SAMPLES:
        yield from _plausible(answers, count, share) if whole else ()
        return
    numbers = np.sort(np.array([row.seq_id for row in answers.rows], np.int64))
    expected = sampling.selected_samples(count, share, seed)
    if not (np.array_equal(numbers, expected) if whole else np.isin(numbers, expected).all()):
        strays = np.setxor1d(numbers, expected) if whole else np.setdiff1d(numbers, expected)
        first = (
            f", first sample number {strays[0]}" if strays.size else ", and some stand there twice"
        )
        yield (
            f"{len(numbers)} answers are logged where LoadGen chooses {len(expected)}:"
            f" {strays.size} others{first}"
        )
        return
    yield from _order(answers, count, test, subject)


def _plausible(answers: LoggedAnswers, count: int, share: float) -> Iterator[str]:
    """Yield the faults of the number of logged answers, for tests too long to repeat LoadGen's
    selection.

    It must be within six standard deviations of the expected number, and all answers must be of
    different samples.
    """
    expected = min(max(share, 0.0), 1.0) * count
    if abs(len(answers.rows) - expected) > 6 * expected**0.5 + 1:
        yield (
            f"{len(answers.rows)} answers are logged; of {count} samples LoadGen chooses about"
            f" {expected:.0f}"
        )
    numbers = {row.seq_id for row in answers.rows}
    if len(numbers) != len(answers.rows) or max(numbers) >= count:
        yield f"a sample number stands there twice or is none of {count}"


def _order(answers: LoggedAnswers, count: int, test: LoadGenRun, subject: Subject) -> Iterator[str]:
    detail = test.detail
    sets, least, seed = (
        detail.all("loaded_qsl_set"),
        detail.get("effective_min_query_count"),
        detail.get("effective_sample_index_rng_seed"),
    )
    loaded = sets[0] if len(sets) == 1 and isinstance(sets[0], list) else []
    if (
        len(loaded) < counts.samples_per_query(detail, subject.scenario)
        or type(least) is not int
        or type(seed) is not int
        or not all(type(i) is int and 0 <= i < 1 << 40 for i in loaded)
    ):
        yield "the loaded set, effective_min_query_count or the seed is missing from the detail log"
        return
    settings = counts.issue_settings(detail, subject.scenario, seed)
    numbers, indices = (
        np.array([getattr(row, key) for row in answers.rows], np.int64)
        for key in ("seq_id", "index")
    )
    least = sample_order.bounded(max(least, 1), count)
    for draws in Draws:
        expected = sample_order.performance(
            settings, loaded, draws, count=count, min_query_count=least
        )[numbers]
        if np.array_equal(expected, indices):
            return
    at = np.flatnonzero(expected != indices)[0]
    yield (
        f"sample number {numbers[at]} is of index {indices[at]}; the seed {seed} makes it"
        f" {expected[at]}"
    )
