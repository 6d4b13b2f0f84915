"""What a compliance test's log of answers shows: which samples LoadGen chose, their answers, ends and lengths. Pure: files → checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from compliance import logs
from compliance.audit_tests import sampled, verification
from compliance.audit_tests.sampled import Compared, Row, Sampled
from compliance.checks import benchmark as official
from compliance.checks.accuracy import whole_log
from compliance.findings.check import Check, judge, manual, not_applicable
from compliance.loadgen import counts, sampling
from compliance.loadgen import sample_order as order
from compliance.loadgen.random import MOST_SAMPLES, Draws
from compliance.logs import files
from compliance.rules import ComplianceTest
from compliance.subject import Subject, Test

_LOG = "mlperf_log_accuracy.json"
_FIX = "run the compliance test anew: ./run.sh comply RUN_DIR --again"
_TOKEN_BYTES = 4


def checks(test: Test, rule: ComplianceTest, s: Subject) -> list[Check]:
    """Of a test that logs answers; the whole log is in raw/, or submitted where it was short."""
    if not rule.sampling_target:
        return []
    submitted = s.place.compliance / test.name / "accuracy" / _LOG
    path = (s.place.run / "raw" / test.name / _LOG) if s.place.run is not None else submitted
    found, fault = files.attempt(sampled.read, path)
    where = {"level": "submission", "file": s.place.show(path)}
    if s.place.run is None and _is_cut(submitted, s):
        return [_ends(test, submitted, s, where)]
    if found is None:
        return [judge(f"{test.name} answers", [fault], "", source="G1", **where, fix=_FIX)]
    rest = [_hash(test, rule, path, submitted, s)] if s.place.run is not None else []
    rest.append(judge(f"{test.name} samples", _samples(found, test, s), _chosen(found), source="G1", **where, fix=_FIX))
    if test.name == "TEST06":
        return rest + _tokens(found, test, s, where)
    return rest + _answers(found, test, s, where)


def _is_cut(path: Path, s: Subject) -> bool:
    content, _ = files.attempt(files.whole_bytes, path)
    return content is not None and s.rules.truncation.joint.encode() in content


def _ends(test: Test, path: Path, s: Subject, where: dict[str, str]) -> Check:
    """Of a log that is cut: what is left of it, its hash and what the official script said; the answers themselves are for a person."""
    name, where = f"{test.name} answers", where | {"source": "G1"}
    if faults := list(_cut_faults(test, path, s)):
        return judge(name, faults, "", **where, fix=_FIX)
    why = "the log of answers is truncated, and the original is not in a submission"
    return manual(name, why, **where, fix="ask the submitter for the whole log, and compare it with the whole accuracy log")


def _cut_faults(test: Test, path: Path, s: Subject) -> Iterator[str]:
    cut, content = s.rules.truncation, files.attempt(files.whole_bytes, path)[0] or b""
    size, joint = 2 * cut.keep_bytes + len(cut.joint.encode()), cut.joint.encode()
    if len(content) != size or content.count(joint) != 1 or content.find(joint) != cut.keep_bytes:
        yield f"{len(content)} bytes; a truncated log is its first and last {cut.keep_bytes} with {cut.joint!r} between: {size} bytes"
        return
    rows = logs.read_ends(content[: cut.keep_bytes], content[-cut.keep_bytes :], repeats=True)
    yield from rows.problems
    text, fault = files.attempt(files.text, path.with_name("accuracy.txt"))
    hashes = [line.removeprefix("hash=") for line in (text or "").splitlines() if line.startswith("hash=")]
    if len(hashes) != 1 or not files.is_sha256(hashes[0]):
        yield fault or f"accuracy.txt says {', '.join(hashes) or 'no hash'}; it has one line of hash=<sha256>"
    texts = [files.attempt(files.text, path.parent / f"{word}_accuracy.txt")[0] for word in ("baseline", "compliance")]
    said = stated(test, "verify_accuracy.txt", verification.PASS, s)
    if said and None not in texts and s.place.division != "open":  # one that is not deterministic is judged by its accuracy
        yield from official.far_apart(s, texts)
    elif None in texts:
        yield from said
    if test.detail.values and rows.seq_ids and not rows.problems:  # a row may be longer than what is kept
        left = Sampled(tuple(Row(a, b, b"") for a, b in zip(rows.seq_ids, rows.indices, strict=True)), ())
        yield from _samples(left, test, s, whole=False)


def _hash(test: Test, rule: ComplianceTest, whole: Path, submitted: Path, s: Subject) -> Check:
    """E2 of this log too: the submitted one is the raw one, or its head and tail with the hash of it all in accuracy.txt."""
    where = {"level": "submission", "source": "E2", "file": s.place.show(submitted), "fix": _FIX}
    return judge(f"{test.name} hash", _cut(rule, whole, submitted, s), "the submitted log of answers is the raw one", **where)


def _cut(rule: ComplianceTest, whole: Path, submitted: Path, s: Subject) -> Iterator[str]:
    content, fault = files.attempt(files.whole_bytes, submitted)
    original, raw_fault = files.attempt(files.whole_bytes, whole)
    cut = s.rules.truncation
    if content is None or original is None:
        yield fault or raw_fault
    elif content != original and not (rule.truncated and content == cut.cut(original)):
        yield f"it is not the raw log{', nor its head and tail' if rule.truncated else ''}"
    elif rule.truncated and len(content) > cut.limit_bytes:
        yield f"{len(content)} bytes; at most {cut.limit_bytes}"
    if not rule.truncated:
        return
    text, fault = files.attempt(files.text, submitted.with_name("accuracy.txt"))
    hashes = [line.removeprefix("hash=") for line in (text or "").splitlines() if line.startswith("hash=")]
    digest, _ = files.attempt(files.sha256, whole)
    if hashes != [digest] or not files.is_sha256(digest):
        yield fault or f"accuracy.txt says {', '.join(hashes) or 'no hash'}; the whole log has {digest}"


def _chosen(found: Sampled) -> str:
    return f"{len(found.rows)} answers of {len({row.index for row in found.rows})} samples, those that LoadGen chooses"


def _samples(found: Sampled, test: Test, s: Subject, whole: bool = True) -> Iterator[str]:
    """`whole`: whether `found` is all that was logged."""
    yield from found.problems
    if not found.rows:
        yield "no answer was logged; there must be one at least"
        return
    loaded = s.performance.detail.get("loaded_qsl_set")
    strange = {row.index for row in found.rows} - set(loaded if isinstance(loaded, list) else ())
    if strange:
        yield f"sample {min(strange)} was not loaded, and has an answer"
        return
    if not test.detail.values:
        return
    planned, seed = sampling.expected(test.detail, s.scenario), test.detail.get("effective_accuracy_log_rng_seed")
    if planned is None or type(seed) is not int or seed < 0:
        yield "a count, the sampling target or its seed is missing from the detail log"
        return
    count, share = planned
    if count > MOST_SAMPLES:
        yield from _plausible(found, count, share) if whole else ()
        return
    numbers = np.sort(np.array([row.seq_id for row in found.rows], np.int64))
    wanted = sampling.chosen(count, share, seed)
    if not (np.array_equal(numbers, wanted) if whole else np.isin(numbers, wanted).all()):
        odd = np.setxor1d(numbers, wanted) if whole else np.setdiff1d(numbers, wanted)
        first = f", first sample number {odd[0]}" if odd.size else ", and some stand there twice"
        yield f"{len(numbers)} answers are logged where LoadGen chooses {len(wanted)}: {odd.size} others{first}"
        return
    yield from _order(found, count, test, s)


def _plausible(found: Sampled, count: int, share: float) -> Iterator[str]:
    """Of a test too long to choose again: as many answers as the share makes, give or take what chance does, of different samples."""
    wanted = min(max(share, 0.0), 1.0) * count
    if abs(len(found.rows) - wanted) > 6 * wanted**0.5 + 1:
        yield f"{len(found.rows)} answers are logged; of {count} samples LoadGen chooses about {wanted:.0f}"
    numbers = {row.seq_id for row in found.rows}
    if len(numbers) != len(found.rows) or max(numbers) >= count:
        yield f"a sample number stands there twice or is none of {count}"


def _order(found: Sampled, count: int, test: Test, s: Subject) -> Iterator[str]:
    d = test.detail
    sets, least, seed = d.all("loaded_qsl_set"), d.get("effective_min_query_count"), d.get("effective_sample_index_rng_seed")
    loaded = sets[0] if len(sets) == 1 and isinstance(sets[0], list) else []
    if (
        len(loaded) < counts.each(d, s.scenario)
        or type(least) is not int
        or type(seed) is not int
        or not all(type(i) is int and 0 <= i < 1 << 40 for i in loaded)
    ):
        yield "the loaded set, effective_min_query_count or the seed is missing from the detail log"
        return
    equal, each = d.get("effective_sample_concatenate_permutation") is True, counts.each(d, s.scenario)
    numbers, indices = (np.array([getattr(row, key) for row in found.rows], np.int64) for key in ("seq_id", "index"))
    for draws in Draws:
        wanted = order.performance(s.scenario, loaded, count, order.bounded(max(least, 1), count), equal, seed, draws, each)[numbers]
        if np.array_equal(wanted, indices):
            return
    at = np.flatnonzero(wanted != indices)[0]
    yield f"sample number {numbers[at]} is of index {indices[at]}; the seed {seed} makes it {wanted[at]}"


def _answers(found: Sampled, test: Test, s: Subject, where: dict[str, str]) -> list[Check]:
    """TEST01: against the accuracy run, byte by byte."""
    whole = whole_log(s)
    if whole is None:
        why = "the accuracy run's log is truncated, and the original is not in a submission: ask the submitter for it"
        return [manual(f"{test.name} answers", why, source="G1", **where)]
    answers, fault = files.attempt(logs.read_accuracy, whole)
    if answers is None:
        return [judge(f"{test.name} answers", [f"the accuracy run: {fault}"], "", source="G1", **where, fix="measure the accuracy again")]
    compared = sampled.compare(found.rows, answers.payloads)
    said = stated(test, "verify_accuracy.txt", verification.PASS if compared.exact else verification.FAIL, s)
    first = _compared(compared, answers.payloads, test, s, said, where)
    return [first, _length(found, answers.payloads, s, where)]


def _compared(compared: Compared, answers: Mapping[int, bytes], test: Test, s: Subject, said: list[str], where: dict[str, str]) -> Check:
    name, where = f"{test.name} answers", where | {"source": "G1"}
    faults = [f"sample {index} has no answer in the accuracy run" for index in compared.unknown[:3]] + said
    if not compared.equal and not compared.different:
        faults.append("there is no answer to compare; there must be one at least")
    if faults or not compared.different:
        return judge(name, faults, f"{compared.equal} of {compared.equal} are the accuracy run's, every byte", **where, fix=_FIX)
    told = (
        f"{len(compared.different)} of {compared.equal + len(compared.different)} are not the accuracy run's bytes "
        f"(first sample {compared.different[0].index})"
    )
    if s.place.run is None or s.no_reference:
        why = s.recorded("accuracy", "reason") if s.place.run is not None else "a submission holds no reference"
        return manual(name, f"{told}, and nothing is there to judge them by: {why}", **where)
    score, why = files.attempt(lambda run: _scored(compared, answers, run, s.recorded("accuracy")), s.place.run)
    if score is None:
        return judge(name, [f"{told}, and they cannot be scored: {why}"], "", **where, fix=_FIX)
    within = f"with them the accuracy run scores {score.metric} {score.value:.5g}, at most {score.threshold:g}"
    limits = ", ".join(f"{key.replace('_', ' ')} {value:.5g}" for key, value in score.detail.items())
    faults = [] if score.passed else [f"{told}; {within}, and does not pass ({limits})"]
    return judge(name, faults, f"{told}; {within}: within the tolerance", **where, fix=_FIX)


def _scored(compared: Compared, answers: Mapping[int, bytes], run: Path, judged: dict[str, Any]) -> Any:
    forced = run / "raw" / "accuracy" / "logits.npy"
    return verification.worst(
        compared.different,
        answers,
        judged,
        files.arrays(run / "reference.npz"),
        files.array(forced) if forced.exists() else None,
    )


def _length(found: Sampled, answers: Mapping[int, bytes], s: Subject, where: dict[str, str]) -> Check:
    """G4: of what is generated. Both means are of the same samples."""
    name, where = "output length", where | {"source": "G4"}
    if s.recorded("cell", "task") == "predict":
        return not_applicable(name, "the model generates no tokens", **where)
    means = sampled.mean_length(found.rows, answers)
    if means is None or not means[1]:
        return judge(name, ["there is no answer to take a length of"], "", **where, fix=_FIX)
    test, reference, tolerance = means[0], means[1], s.rules.output_length.tolerance
    told = f"{test / _TOKEN_BYTES:.4g} tokens on average while measuring, {reference / _TOKEN_BYTES:.4g} in the accuracy run"
    far = abs(test - reference) > tolerance * reference
    return judge(name, [f"{told}; they may differ by {tolerance:.0%}"] if far else [], told, **where, fix=_FIX)


def _tokens(found: Sampled, test: Test, s: Subject, where: dict[str, str]) -> list[Check]:
    """TEST06, as far as these SUTs can be asked: they stream no tokens and report no token counts."""
    where = where | {"source": "G3"}
    ends = end_tokens(s)
    odd = [
        f"the answer of sample {row.index} has {len(row.data)} bytes" for row in found.rows if len(row.data) % _TOKEN_BYTES or not row.data
    ]
    both = [
        f"the answer of sample {row.index} ends with {sampled.end_tokens(row, ends)} end tokens"
        for row in verification.two_ends(found, ends)
    ]
    said = [
        *_failed_checks(test, s),
        *stated(test, "verify_accuracy.txt", f"TEST06 verification {'failed' if both or found.problems else 'complete'}", s),
    ]
    whole = judge(f"{test.name} tokens", [*odd, *said], "every answer is of whole int32 tokens", **where, fix=_FIX)
    if ends:
        last = judge(f"{test.name} EOS", both, f"no answer ends with more than one of {_named(ends)}", **where, fix=_FIX)
    else:
        why = "no end token: the prompts are not of the weights' own tokenizer, or the submission does not say which"
        last = not_applicable(f"{test.name} EOS", why, **where)
    return [
        whole,
        last,
        not_applicable(f"{test.name} first token", verification.NO_FIRST_TOKEN, **where),
        not_applicable(f"{test.name} token count", verification.NO_TOKEN_COUNT, **where),
    ]


def _named(ends: frozenset[int]) -> str:
    return " or ".join(map(str, sorted(ends)))


def end_tokens(s: Subject) -> frozenset[int]:
    """The tokenizer's own, as numbers (record.json); none where the ids are no text of it."""
    found = s.recorded("end_tokens")
    return frozenset(i for i in found if type(i) is int) if isinstance(found, list) else frozenset()


def _failed_checks(test: Test, s: Subject) -> Iterator[str]:
    """Of TEST06's script: a line for each of its checks."""
    text, _ = files.attempt(files.text, s.place.compliance / test.name / "verify_accuracy.txt")
    yield from (
        f"verify_accuracy.txt says {line[:80]!r}" for line in (text or "").splitlines() if line.strip().endswith("check pass: False")
    )


def stated(test: Test, name: str, want: str, s: Subject) -> list[str]:
    """A fault where a verify_*.txt says other than what the logs show."""
    text, fault = files.attempt(files.text, s.place.compliance / test.name / name)
    if text is None:
        return [fault]
    lines = [line.strip() for line in text.splitlines()]
    said = any(line.startswith(want) for line in lines) if want == verification.FAIL else want in lines
    denied = want == verification.PASS and any(line.startswith(verification.FAIL) for line in lines)
    return [] if said and not denied else [f"{name} does not say {want!r} alone, which is what the logs show"]
