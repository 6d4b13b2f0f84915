"""The log of answers of TEST01 and TEST06: is it the raw one, is it whole, and does it have the
samples that LoadGen selects?
"""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np

from compliance import logs
from compliance.audit_tests import speed
from compliance.checks.submission import accuracy, benchmark
from compliance.findings.check import failed, judge, manual
from compliance.loadgen import sampling
from compliance.loadgen.random import MOST_SAMPLES
from compliance.logs import LoggedAnswers, files
from compliance.logs.entry import LOADED_SET
from compliance.rules import ComplianceTest
from compliance.subject import LoadGenRun, Subject
from formats.checks import Check, Checks, Faults

_LOG = "mlperf_log_accuracy.json"


def checks(
    test: LoadGenRun, rule: ComplianceTest, subject: Subject
) -> tuple[LoggedAnswers | None, str, Checks]:
    """(the rows of the whole log, its path, the checks of it). The rows are None if the log cannot
    be read or is truncated.

    The whole log is in raw/, or submitted if it is short. Its path is relative to the audited
    directory.
    """
    place = subject.place
    submitted = place.compliance / test.name / "accuracy" / _LOG
    run = place.run
    path = submitted if run is None else run / "raw" / test.name / _LOG
    file = place.show(path)
    if run is None and accuracy.is_cut(submitted, subject.rules):
        return None, file, [_ends(test, submitted, subject, file)]
    answers, fault = files.attempt(logs.read_logged, path)
    if answers is None:
        return None, file, [failed(f"{test.slug}-answers", fault, file)]
    results = []
    if run and rule.truncated:
        results.append(_hash(test, path, submitted, subject))
    count = len(set(answers.indices))
    good = f"{len(answers.rows)} answers of {count} samples, which LoadGen selects"
    results.append(judge(f"{test.slug}-samples", _samples(answers, test, subject), good, file))
    return answers, file, results


def _ends(test: LoadGenRun, path: Path, subject: Subject, file: str) -> Check:
    """The check of a truncated log: its rows, its hash and the official script's verdict. A person
    has to judge the answers themselves.
    """
    check_id = f"{test.slug}-answers"
    if faults := list(_cut_faults(test, path, subject)):
        return judge(check_id, faults, "", file)
    why = "the log of answers is truncated, and a submission does not contain the original"
    fix = "ask the submitter for the whole log, and compare it with the whole accuracy log"
    return manual(check_id, why, file=file, fix=fix)


def _cut_faults(test: LoadGenRun, path: Path, subject: Subject) -> Faults:
    cut = subject.rules.truncation
    content = files.maybe(files.whole_bytes, path) or b""
    content = content.replace(b"\r\n", b"\n")
    joint = cut.joint.encode()
    keep_bytes = cut.keep_bytes
    size = 2 * keep_bytes + len(joint)
    is_cut_once = content.count(joint) == 1 and content.find(joint) == keep_bytes
    if len(content) != size or not is_cut_once:
        yield (
            f"{len(content)} bytes; a truncated log has {size}: its first and last"
            f" {keep_bytes} bytes with {cut.joint!r} between them"
        )
        return
    rows = logs.read_ends(content[:keep_bytes], content[-keep_bytes:], repeats=True)
    yield from rows.problems
    hashes, fault = _hashes(path.with_name("accuracy.txt"))
    if len(hashes) != 1 or not files.is_sha256(hashes[0]):
        found = ", ".join(hashes) or "no hash"
        yield fault or f"accuracy.txt says {found}; it must have one line hash=<sha256>"
    if test.name == "TEST01":
        # A SUT that is not deterministic fails verify_accuracy.txt, and is judged by the
        # accuracies of both runs instead.
        texts = []
        for word in ("baseline", "compliance"):
            texts.append(files.maybe(files.text, path.parent / f"{word}_accuracy.txt"))
        contradictions = speed.contradictions(test, "verify_accuracy.txt", speed.PASS, subject)
        if None in texts:
            yield from contradictions
        elif contradictions and not subject.is_open:
            yield from benchmark.far_apart(subject, texts)
    # A row may be longer than the part that truncation keeps.
    if test.detail.values and rows.seq_ids and not rows.problems:
        yield from _samples(rows, test, subject, whole=False)


def _hashes(path: Path) -> tuple[list[str], str]:
    """(each hash in an accuracy.txt, why it cannot be read)."""
    text, fault = files.attempt(files.text, path)
    lines = (text or "").splitlines()
    return [line.removeprefix("hash=") for line in lines if line.startswith("hash=")], fault


def _hash(test: LoadGenRun, whole: Path, submitted: Path, subject: Subject) -> Check:
    """The check that the submitted log is the raw one or its head and tail, and that the whole
    log's hash is in accuracy.txt. The check `raw-logs` compares logs that are never truncated.
    """
    faults = list(accuracy.unlike_raw(submitted, whole, subject.rules.truncation))
    hashes, fault = _hashes(submitted.with_name("accuracy.txt"))
    digest = files.sha256(whole)
    if hashes != [digest]:
        found = ", ".join(hashes) or "no hash"
        faults.append(fault or f"accuracy.txt says {found}; the whole log has {digest}")
    good = "the submitted log of answers is the raw one"
    return judge(f"{test.slug}-hash", faults, good, subject.place.show(submitted))


def _samples(
    answers: LoggedAnswers | logs.Answers, test: LoadGenRun, subject: Subject, whole: bool = True
) -> Faults:
    """Yield a sentence for each difference between the logged answers and LoadGen's selection.

    Args:
        whole: whether `answers` are all logged answers.
    """
    yield from answers.problems
    indices = np.asarray(answers.indices, np.int64)
    if not indices.size:
        yield "no answer was logged; at least one must be there"
        return
    loaded = subject.performance.detail.get(LOADED_SET)
    strange = indices
    if isinstance(loaded, array):
        strange = indices[~np.isin(indices, loaded)]
    if strange.size:
        yield f"sample {strange.min()} was not loaded, and has an answer"
        return
    detail = test.detail
    if not detail.values:
        return
    rate = sampling.selection_rate(subject.log_of(test))
    seed = detail.get("effective_accuracy_log_rng_seed")
    if rate is None or type(seed) is not int or seed < 0:
        yield "a count, the sampling target or its seed is missing from the detail log"
        return
    count, share = rate
    numbers = np.asarray(answers.seq_ids, np.int64)
    if count > MOST_SAMPLES:
        yield from _plausible(numbers, count, share) if whole else ()
        return
    expected = sampling.selected_samples(count, share, seed)
    if whole:
        others = np.setxor1d(numbers, expected)
        agrees = np.array_equal(np.sort(numbers), expected)
    else:
        others = np.setdiff1d(numbers, expected)
        agrees = not others.size
    if agrees:
        yield from _order(indices, numbers, count, test, subject)
        return
    first = f"the first is sample number {others[0]}" if others.size else "some occur twice"
    yield (
        f"{len(numbers)} answers are logged, and LoadGen selects {len(expected)};"
        f" {others.size} differ, {first}"
    )


def _plausible(numbers: np.ndarray, count: int, share: float) -> Faults:
    """Yield the faults of the number of logged answers, for tests too long to repeat LoadGen's
    selection.

    It must be within six standard deviations of the expected number, and all answers must be of
    different samples.
    """
    expected = min(max(share, 0.0), 1.0) * count
    if abs(len(numbers) - expected) > 6 * expected**0.5 + 1:
        yield (
            f"{len(numbers)} answers are logged; LoadGen selects about {expected:.0f} of"
            f" {count} samples"
        )
    if len(np.unique(numbers)) != len(numbers) or numbers.max() >= count:
        yield f"a sample number occurs twice, or is not below {count}"


def _order(
    indices: np.ndarray, numbers: np.ndarray, count: int, test: LoadGenRun, subject: Subject
) -> Faults:
    """Yield a sentence if a sample is not the one that LoadGen issues at this place.

    Args:
        indices, numbers: the sample's index and number of each row.
        count: how many samples the test issued.
    """
    issued = subject.log_of(test).performance_order(count)
    if issued is None:
        yield "the loaded set, effective_min_query_count or the seed is missing from the detail log"
        return
    seed = test.detail.get("effective_sample_index_rng_seed")
    for fault in accuracy.misplaced(issued, indices, numbers, seed):
        yield fault.text
