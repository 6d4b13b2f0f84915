"""The checks of the accuracy test's log, its truncation and its hash."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from compliance import logs
from compliance.findings.check import differs, judge, manual, not_applicable, shorten
from compliance.loadgen import sample_order
from compliance.loadgen.random import Draws
from compliance.logs import files
from compliance.rules import Rules, Truncation
from compliance.subject import Subject
from formats.checks import Check, Checks, Fault, Faults

_LOG = "mlperf_log_accuracy.json"
_CUT = "truncate_accuracy_log.py of mlcommons/inference writes both log and hash"
_ASK = (
    "ask the submitter for the whole log, replace the truncated one by it and audit again: only its"
    " size will be wrong"
)
_TRUNCATED = "the log is truncated, and only the whole log has every row"
_LARGEST_DAMAGED = 64 << 20
_FILLS_UP = "MultiStream"
_HASH = re.compile(r"^hash=(\S*)\s*$", re.MULTILINE)


def checks(subject: Subject) -> Checks:
    """The checks that do not need the whole log of answers."""
    submitted = subject.accuracy.folder / _LOG
    most = subject.rules.truncation.limit_bytes
    size = judge(
        "accuracy-log-size",
        _size(submitted, subject.rules),
        f"at most {most} bytes",
        subject.place.show(submitted),
    )
    return [size, performance_answers(subject)]


def performance_answers(subject: Subject) -> Check:
    """The check that the performance test logged no answers."""
    return judge("performance-log-of-answers", _no_answers(subject), "empty, as it must be")


def checks_of_logs(subject: Subject) -> Checks:
    """The checks of the log of answers in a folder of LoadGen's logs, which has no accuracy.txt and
    so no hash to compare with.
    """
    whole = whole_log(subject)
    if whole is None:
        checks = checks_of_truncated(subject, _TRUNCATED)
    else:
        answers, fault = files.attempt(logs.read_accuracy, whole)
        checks = checks_of_whole(subject, whole, answers, fault)
    return [check for check in checks if check.id != "accuracy-hash"]


def checks_of_whole(
    subject: Subject, whole: Path, answers: logs.Answers | None, fault: str
) -> Checks:
    """The checks of the whole log of answers.

    Args:
        answers: the content of the log; None: `fault` says why it cannot be read.
    """
    file = subject.place.show(whole)
    submitted = subject.place.show(subject.accuracy.folder / _LOG)
    good = "the hash of the whole log, whose head and tail were submitted"
    samples = f"{len(answers.payloads) if answers else 0} samples, each once"
    hashes = _hash(subject, whole, answers)
    rows = _unanswered(subject, answers, fault)
    results = [
        judge("accuracy-hash", hashes, good, submitted),
        judge("accuracy-log", rows, samples, file),
    ]
    if answers is not None:
        results.append(_in_order(subject, answers, "the order that follows from the seeds", file))
    return results


def checks_of_truncated(subject: Subject, why: str) -> Checks:
    """The checks of order and form of a truncated log. The remaining rows still show which samples
    came first and last.

    A fault in these rows fails. Without a fault, a person must request the whole log, for the
    reason `why`.
    """
    submitted = subject.accuracy.folder / _LOG
    file = subject.place.show(submitted)
    content = files.maybe(files.whole_bytes, submitted)
    # On Windows the joint and the rows end with a carriage return too.
    head, _, tail = (
        (content or b"").replace(b"\r\n", b"\n").partition(subject.rules.truncation.joint.encode())
    )
    rows = logs.read_ends(head, tail, repeats=subject.scenario == _FILLS_UP)
    if rows.seq_ids:
        good = f"the {len(rows.seq_ids)} rows left are in the order of the seeds"
        order = _in_order(subject, rows, good, file)
    else:
        no_row = "a row is longer than the part that truncation keeps, so no whole row is left"
        order = not_applicable("accuracy-order", no_row, file)
    log = manual("accuracy-log", why, file=file, fix=_ASK)
    if rows.problems:
        log = judge("accuracy-log", rows.problems, "", file, fix=_CUT)
    hash_line = manual("accuracy-hash", why, file=file, fix=_ASK)
    if faults := list(_hash_form(subject)):
        hash_line = judge("accuracy-hash", faults, "")
    return [order, log, hash_line]


def whole_log(subject: Subject) -> Path | None:
    """The path of the whole log. It is in raw/accuracy, or is the submitted log if that was short
    enough to stay whole. None if there is no whole log.
    """
    raw = subject.place.raw("accuracy")
    if raw:
        return raw / _LOG
    submitted = subject.accuracy.folder / _LOG
    return None if is_cut(submitted, subject.rules) else submitted


def is_cut(path: Path, rules: Rules) -> bool:
    """Whether a submitted log is truncated."""
    content = files.maybe(files.whole_bytes, path)
    return content is not None and rules.truncation.is_cut(content)


def _size(path: Path, rules: Rules) -> Faults:
    size, fault = files.attempt(lambda p: p.stat().st_size, path)
    if fault or size is None:
        yield fault
    elif not 0 < size <= rules.truncation.limit_bytes:
        limit = f"1 to {rules.truncation.limit_bytes} bytes"
        yield Fault(f"{size} bytes; it must have {limit}", limit, f"{size} bytes")


def _no_answers(subject: Subject) -> Faults:
    """Yield a fault if a performance test logged answers, which it does only with audit
    settings.
    """
    place = subject.place
    path = (place.raw("performance") or subject.performance.folder) / _LOG
    file = place.show(path)
    content, fault = files.attempt(lambda p: files.ends(p, 64), path)
    if content and content[2] > 0 and content[0].split() != [b"[", b"]"]:
        count = f"{content[2]} bytes"
        text = f"{count} in the performance test's {_LOG}; LoadGen writes an empty array there"
        yield Fault(text, "an empty array", count, file)
    if fault and place.run:
        yield Fault(fault, file=file)


def _hash_form(subject: Subject) -> Faults:
    hashes = _HASH.findall(subject.accuracy_text or "")
    file = subject.accuracy_file
    if file in subject.faults:
        yield Fault(subject.faults[file], file=file)
    elif len(hashes) != 1:
        count = f"{len(hashes)} lines"
        text = f"accuracy.txt has {count} of hash=<sha256>; it must have one"
        yield Fault(text, "one line", count, file, stricter=bool(hashes))
    elif not files.is_sha256(hashes[0]):
        yield Fault("accuracy.txt: the hash is no sha256", "a sha256", shorten(hashes[0]), file)


def _hash(subject: Subject, whole: Path, answers: logs.Answers | None) -> Faults:
    """Yield the contradictions between hash, whole log and truncated log.

    A log that could be read whole has a bounded size. A damaged log is hashed only up to 64 MiB,
    because a large sparse file costs its forger nothing.
    """
    if faults := list(_hash_form(subject)):
        yield from faults
        return
    is_read = answers is not None and not _problems(answers, subject)
    of = files.sha256 if is_read else partial(files.bounded_sha256, most=_LARGEST_DAMAGED)
    stated = _HASH.findall(subject.accuracy_text or "")[0]
    digest, fault = files.attempt(of, whole)
    if fault or digest != stated:
        file = subject.accuracy_file
        text = f"accuracy.txt says {stated}; the whole log has {digest}"
        yield fault or Fault(text, str(digest), stated, file, stricter=True)
        return
    yield from unlike_raw(subject.accuracy.folder / _LOG, whole, subject.rules.truncation)


def unlike_raw(submitted: Path, whole: Path, cut: Truncation) -> Faults:
    """Yield a sentence if a submitted log of answers is neither the raw one nor its head and
    tail.
    """
    content, fault = files.attempt(files.whole_bytes, submitted)
    head, tail, size = files.ends(whole, cut.keep_bytes)
    allowed = [head + cut.joint.encode() + tail]
    text = f"the submitted log is not the first and last {cut.keep_bytes} bytes of the raw one"
    if size <= cut.limit_bytes:
        allowed.append(files.whole_bytes(whole))
        text = "the submitted log is not the raw one"
    if fault or content not in allowed:
        yield fault or text


def _unanswered(subject: Subject, answers: logs.Answers | None, fault: str) -> Faults:
    """Yield the faults of the whole log.

    Every row must be readable, and sample indices and seq_ids must each run from 0 on without a
    gap.

    Args:
        fault: why `answers` is None.
    """
    if answers is None:
        yield fault
        return
    yield from _problems(answers, subject)
    count = subject.accuracy.detail.loaded_samples("accuracy")
    different = len(answers.payloads)
    expected = different if count is None else int(count)
    # The keys are the samples' indices.
    indices = np.fromiter(answers.payloads, np.int64, different)
    if different != expected or not _from_zero(indices):
        text = (
            f"{different} different samples were answered; it must be {expected}, with the indices"
            " from 0 on"
        )
        yield Fault(text, f"{expected} samples, from 0 on", f"{different} samples")
    if not _from_zero(np.asarray(answers.seq_ids, np.int64)):
        yield "seq_id does not run from 0 to the number of rows - 1, each once"


def _in_order(subject: Subject, rows: logs.Answers, good: str, file: str) -> Check:
    """The check of the order of the rows."""
    if not_judged := subject.accuracy.detail.not_judged:
        return not_applicable("accuracy-order", not_judged, file)
    return judge("accuracy-order", _order(subject, rows), good, file)


def _order(subject: Subject, rows: logs.Answers) -> Faults:
    """Yield a fault for the first row of the log, whole or truncated, whose sample does not follow
    from the seeds.
    """
    seq_ids = np.asarray(rows.seq_ids, np.int64)
    indices = np.asarray(rows.indices, np.int64)
    log = subject.log_of(subject.accuracy)
    sets = log.sets
    seed = log.seed("sample_index_rng_seed")
    if sets is None or seed is None:
        yield "the loaded sets or the seed are missing from the detail log"
        return
    count = log.accuracy_samples(sets)
    if not len(seq_ids) or seq_ids.min() < 0 or seq_ids.max() >= count:
        yield f"its sample numbers are not those of {count} samples"
        return
    order = partial(sample_order.accuracy, log.issue_settings(seed), sets)
    yield from misplaced(order, indices, seq_ids, seed)


def misplaced(
    order: Callable[[Draws], np.ndarray], indices: np.ndarray, seq_ids: np.ndarray, seed: int
) -> Iterator[Fault]:
    """Yield a fault for the first row whose sample does not follow from the seed; see
    `sample_order.misplaced`.
    """
    stray = sample_order.misplaced(order, indices, seq_ids)
    if stray:
        at, expected = stray
        sentence = (
            "sample number {number} has index {found}; with seed {seed} it has index {expected}"
        )
        yield differs(sentence, indices[at], expected, number=seq_ids[at], seed=seed)


def _problems(answers: logs.Answers, subject: Subject) -> list[str]:
    """The problems of the log. In MultiStream a sample may occur twice, to fill up the last query
    of a set; the check of the order judges which.
    """
    if subject.scenario != _FILLS_UP:
        return list(answers.problems)
    return [problem for problem in answers.problems if not problem.endswith(logs.TWICE)]


def _from_zero(numbers: np.ndarray) -> bool:
    """Whether the numbers are 0, 1, 2, … in any order, each once."""
    return np.array_equal(np.sort(numbers), np.arange(len(numbers)))
