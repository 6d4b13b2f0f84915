"""The accuracy test: its log, the log's truncation and hash, and the score, computed again from the whole log and the reference."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compliance import logs
from compliance.findings.check import Check, Fault, judge, manual, mismatch, not_applicable, shorten
from compliance.loadgen import counts
from compliance.loadgen.counts import logged_seed, logged_sets
from compliance.loadgen.sample_order import misplaced
from compliance.logs import files, strict_json
from compliance.rules import Rules
from compliance.scoring import accuracy
from compliance.subject import Subject

_LOG = "mlperf_log_accuracy.json"
_CUT = "truncate_accuracy_log.py of mlcommons/inference writes both log and hash"
_AGAIN = "measure the accuracy again"
_ASK = "ask the submitter for the whole log, put it in the place of the truncated one and audit again: its size alone will then be wrong"
_SCORE = "see the answers in raw/accuracy, reference.npz and the tolerance in record.json"
_REFERENCE = "measure where the reference can be made: see the reason in record.json"
_HASHED_WHATEVER_IT_HOLDS = 64 << 20
_FILLS_UP = "MultiStream"
_HASH = re.compile(r"^hash=(\S*)\s*$", re.MULTILINE)


def checks(subject: Subject) -> list[Check]:
    """The checks of the accuracy test. Without the whole log they judge what truncation left of it, and ask for the rest."""
    submitted, whole = subject.accuracy.folder / _LOG, whole_log(subject)
    where = {"file": subject.place.show(submitted)}
    made = [
        judge(
            "accuracy-log-size",
            _size(submitted, subject.rules),
            f"at most {subject.rules.truncation.limit_bytes} bytes",
            fix=_CUT,
            **where,
        ),
        judge("performance-log-of-answers", _no_answers(subject), "empty, as it must be", fix="remove audit.config and measure again"),
    ]
    if whole is None:
        why = "the log is truncated, and the original is not in a submission: ask the submitter for it"
        text = judge("accuracy-hash", _hash_form(subject), "", fix=_CUT)
        return [
            *made,
            *_checks_of_truncated(subject, submitted, why),
            text if text.verdict == "FAIL" else manual("accuracy-hash", why, fix=_ASK, **where),
            _score_unverified(subject, why),
            _tolerance(subject),
        ]
    answers, fault = files.attempt(logs.read_accuracy, whole)
    made.append(
        judge(
            "accuracy-hash",
            _hash(subject, whole, answers),
            "of the whole log; head and tail of the submitted one are its own",
            fix=_CUT,
            **where,
        )
    )
    made.append(
        judge(
            "accuracy-log",
            _answers(subject, answers, fault),
            f"{len(answers.payloads) if answers else 0} samples, each once",
            file=subject.place.show(whole),
            fix=_AGAIN,
        )
    )
    if answers is not None:
        order = _order(subject, answers)
        made.append(judge("accuracy-order", order, "the one that follows from the seeds", file=subject.place.show(whole), fix=_AGAIN))
    judged = (
        [Fault("no reference was there to judge its accuracy by", "a reference", "none")]
        if subject.place.run and subject.no_reference
        else []
    )
    return [
        *made,
        _score(subject, answers, fault),
        _tolerance(subject),
        judge("accuracy-judged", judged, "against a reference", fix=_REFERENCE),
    ]


def _checks_of_truncated(subject: Subject, submitted: Path, why: str) -> list[Check]:
    """Order and form of a truncated log: the rows that are left still say which samples came first and last.

    A fault in them fails. Without one a person must ask for the whole log: `why`.
    """
    file = subject.place.show(submitted)
    head, _, tail = (files.attempt(files.whole_bytes, submitted)[0] or b"").partition(subject.rules.truncation.joint.encode())
    rows = logs.read_ends(head, tail, repeats=subject.scenario == _FILLS_UP)
    order = _order(subject, rows)
    told = f"the {len(rows.seq_ids)} rows left are in the order of the seeds"
    return [
        judge("accuracy-order", order, told, file=file, fix=_AGAIN)
        if rows.seq_ids
        else not_applicable("accuracy-order", "a row is longer than what truncation keeps: none is left whole", file=file),
        judge("accuracy-log", rows.problems, "", file=file, fix=_CUT)
        if rows.problems
        else manual("accuracy-log", why, file=file, fix=_ASK),
    ]


def whole_log(subject: Subject) -> Path | None:
    """The path of the whole log: that of raw/accuracy, else the submitted one if it was short enough to stay whole; None: there is none."""
    raw = subject.place.raw("accuracy")
    if raw:
        return raw / _LOG
    content, _ = files.attempt(files.whole_bytes, subject.accuracy.folder / _LOG)
    return None if content is not None and subject.rules.truncation.joint.encode() in content else subject.accuracy.folder / _LOG


def _size(path: Path, rules: Rules) -> Iterator[Fault | str]:
    size, fault = files.attempt(lambda p: p.stat().st_size, path)
    if fault or size is None:
        yield fault
    elif not 0 < size <= rules.truncation.limit_bytes:
        most = rules.truncation.limit_bytes
        yield Fault(f"{size} bytes; more than 0 and at most {most}", f"1 to {most} bytes", f"{size} bytes")


def _no_answers(subject: Subject) -> Iterator[Fault | str]:
    """A performance test that logged answers: audit settings make it do so."""
    folder = subject.place.raw("performance") or subject.performance.folder
    content, fault = files.attempt(lambda p: files.ends(p, 64), folder / _LOG)
    if content and content[2] > 0 and content[0].split() != [b"[", b"]"]:
        text = f"{content[2]} bytes in the performance test's {_LOG}; LoadGen writes an empty array there"
        yield Fault(text, "an empty array", f"{content[2]} bytes", subject.place.show(folder / _LOG))
    if fault and subject.place.run:
        yield Fault(fault, file=subject.place.show(folder / _LOG))


def _hash_form(subject: Subject) -> Iterator[Fault | str]:
    hashes = _HASH.findall(subject.accuracy_text or "")
    file = subject.place.show(subject.accuracy.folder / "accuracy.txt")
    if len(hashes) != 1:
        yield Fault(f"accuracy.txt holds {len(hashes)} lines of hash=<sha256>; it must be one", "one line", f"{len(hashes)} lines", file)
    elif not files.is_sha256(hashes[0]):
        yield Fault("accuracy.txt: the hash is no sha256", "a sha256", shorten(hashes[0]), file)


def _hash(subject: Subject, whole: Path, answers: logs.Answers | None) -> Iterator[Fault | str]:
    """Where hash, whole log and truncated log contradict each other.

    A log that could be read whole has a bounded size. A damaged one is hashed up to 64 MiB: a sparse file costs its forger nothing.
    """
    if faults := list(_hash_form(subject)):
        yield from faults
        return
    read = answers is not None and not _problems(answers, subject)
    of = files.sha256 if read else partial(files.bounded_sha256, most=_HASHED_WHATEVER_IT_HOLDS)
    stated, (digest, fault) = _HASH.findall(subject.accuracy_text or "")[0], files.attempt(of, whole)
    if fault or digest != stated:
        file = subject.place.show(subject.accuracy.folder / "accuracy.txt")
        yield fault or Fault(f"accuracy.txt says {stated}; the whole log has {digest}", str(digest), stated, file)
        return
    content, fault = files.attempt(files.whole_bytes, subject.accuracy.folder / _LOG)
    cut = subject.rules.truncation
    head, tail, size = files.ends(whole, cut.keep_bytes)
    if size <= cut.limit_bytes:
        same, _ = files.attempt(files.whole_bytes, whole)
        if fault or content not in (same, head + cut.joint.encode() + tail):
            yield fault or "the submitted log is not the raw one"
    elif fault or content != head + cut.joint.encode() + tail:
        yield fault or f"the submitted log is not the first and last {cut.keep_bytes} bytes of the raw one"


def _answers(subject: Subject, answers: logs.Answers | None, fault: str) -> Iterator[Fault | str]:
    if answers is None:
        yield fault
        return
    yield from _problems(answers, subject)
    count = subject.accuracy.detail.number("effective_accuracy_sample_count")
    if count != (different := len(answers.payloads)) or not _from_zero(np.fromiter(answers.payloads, np.int64, different)):
        text = f"{different} different samples answered; each of the {count} must be, from 0 on"
        yield Fault(text, f"{count} samples, from 0 on", f"{different} samples")
    if not _from_zero(np.asarray(answers.seq_ids, np.int64)):
        yield "seq_id does not run from 0 to the number of rows - 1, each once"


def _order(subject: Subject, rows: logs.Answers) -> Iterator[Fault | str]:
    """The first row of the log, whole or truncated, that is not the sample the seeds make."""
    seq_ids, indices = np.asarray(rows.seq_ids, np.int64), np.asarray(rows.indices, np.int64)
    detail = subject.accuracy.detail
    sets, seed = logged_sets(detail, subject.scenario), logged_seed(detail, "sample_index_rng_seed")
    if sets is None or seed is None:
        yield "the loaded sets or the seed are missing from the detail log"
        return
    per_query = counts.samples_per_query(detail, subject.scenario)
    count = sum(-(-len(counts.without_wraparound(one, detail, subject.scenario)) // per_query) * per_query for one in sets)
    if not len(seq_ids) or seq_ids.min() < 0 or seq_ids.max() >= count:
        yield f"its sample numbers are not those of {count} samples"
        return
    equal = detail.get("effective_sample_concatenate_permutation") is True
    if stray := misplaced(subject.scenario, sets, equal, seed, per_query, seq_ids, indices):
        at, expected = stray
        text = f"sample number {seq_ids[at]} is of index {indices[at]}; the seed {seed} makes it {expected}"
        yield Fault(text, str(expected), str(indices[at]))


def _problems(answers: logs.Answers, subject: Subject) -> list[str]:
    """The log's problems. In MultiStream a sample may stand there twice, to fill the last query of a set; "accuracy order" says which."""
    return [problem for problem in answers.problems if subject.scenario != _FILLS_UP or not problem.endswith(logs.TWICE)]


def _from_zero(numbers: np.ndarray) -> bool:
    """Whether the numbers are 0, 1, 2, … in any order, each once."""
    return np.array_equal(np.sort(numbers), np.arange(len(numbers)))


def _tolerance(subject: Subject) -> Check:
    """The tolerance that record.json states, against the round's: a record does not choose what it is judged by."""
    where = {"file": "record.json", "fix": "judge by the tolerance of the model's own file: measure again"}
    if subject.place.run is None:
        return not_applicable("tolerance", "a submission without a run directory around it has none", **where)
    return judge("tolerance", _too_loose(subject), "within the round's limits", **where)


def _too_loose(subject: Subject) -> Iterator[Fault]:
    score, precision, stated = (
        subject.recorded(*keys) for keys in (("accuracy", "score"), ("cell", "precision"), ("accuracy", "tolerance"))
    )
    stated = accuracy.with_current_names(stated) if isinstance(stated, dict) else {}
    limits = subject.rules.project_limits.tolerance.get(str(score), {}).get(str(precision))
    if limits is None:
        yield Fault(f"{subject.rules.round} has no tolerance for the score {shorten(score)} in {shorten(precision)}")
        return
    for word, sign, bounds in (("at most", 1, limits.at_most), ("at least", -1, limits.at_least)):
        for name, bound in bounds.items():
            value = stated.get(name)
            if not isinstance(value, int | float) or not sign * value <= sign * bound:
                yield mismatch(f"accuracy.tolerance.{name}", value, f"{word} {bound:g}", f"{score} in {precision} may have")


def _score(subject: Subject, answers: logs.Answers | None, fault: str) -> Check:
    where = {"file": subject.place.show(subject.accuracy.folder / "accuracy.txt"), "fix": _SCORE}
    line = (subject.accuracy_text or "").split("\n", 1)[0]
    if subject.place.run is None:
        return _score_unverified(subject, "a submission without a run directory around it holds no reference to score against")
    if subject.no_reference:
        return manual("accuracy-score", f"not judged: {subject.recorded('accuracy', 'reason')}", **where)
    if answers is None:
        return judge("accuracy-score", [fault], "", **where)
    reference, why = files.attempt(files.arrays, subject.place.run / "reference.npz")
    raw = subject.place.run / "raw" / "accuracy"
    (forced, forced_why), (own, own_why) = (_logits(raw / name) for name in ("logits.npy", "own_logits.npy"))
    if reference is None or forced_why or own_why:
        return judge("accuracy-score", [f"cannot be taken again: {why or forced_why or own_why}"], "", **where)
    score, why = files.reckon(lambda: _score_again(subject.recorded("accuracy"), answers, reference, forced, own))
    if score is None:
        return judge("accuracy-score", [f"cannot be taken again: {why}"], "", **where)
    return judge(
        "accuracy-score",
        [*_score_faults(score, line), *_admitted_failures(subject)],
        f"{score.metric} {score.value:.5g}, at most {score.threshold:g}",
        **where,
    )


def _score_unverified(subject: Subject, why: str) -> Check:
    """The score check where the score cannot be computed again: it fails if accuracy.txt says that it failed, else a person judges."""
    where = {"file": subject.place.show(subject.accuracy.folder / "accuracy.txt"), "fix": _SCORE}
    if not any(line.strip("\ufeff\0 \t") and not line.startswith("hash=") for line in (subject.accuracy_text or "").splitlines()):
        return judge("accuracy-score", ["accuracy.txt holds no score"], "", **where)
    if refused := list(_admitted_failures(subject)):
        return judge("accuracy-score", refused, "", **where)
    return manual("accuracy-score", why, **{**where, "fix": "judge the score that accuracy.txt states by the benchmark's own metric"})


def _admitted_failures(subject: Subject) -> Iterator[Fault]:
    """Every line of accuracy.txt that is JSON and says that it did not pass."""
    for number, line in enumerate((subject.accuracy_text or "").splitlines(), 1):
        stated, _ = files.reckon(partial(strict_json.parse, line.strip("\ufeff \t")))
        if isinstance(stated, dict) and "passed" in stated and stated["passed"] is not True:
            yield Fault(f"accuracy.txt says of itself that it did not pass: {line[:160]}", "passed: true", line[:160], line=number)


def _logits(path: Path) -> tuple[np.ndarray | None, str]:
    """(the logits of a file, why they cannot be read); a model that does not generate has none: (None, "")."""
    try:
        path.lstat()
    except OSError:
        return None, ""
    return files.attempt(files.array, path)


def _score_again(
    judged: Any, answers: logs.Answers, reference: dict[str, np.ndarray], forced: np.ndarray | None, own: np.ndarray | None
) -> accuracy.Accuracy:
    """The score, computed again. Raises one of files.DAMAGE where record.json, answers and reference do not go together."""
    if not isinstance(judged, dict):
        raise ValueError("record.json does not say how it is judged")
    return accuracy.score(judged["score"], answers.payloads, reference, judged["tolerance"], judged["keys"], forced, own)


def _score_faults(score: accuracy.Accuracy, line: str) -> Iterator[Fault | str]:
    stated, _ = files.attempt(lambda _: strict_json.parse(line), Path("accuracy.txt"))
    if isinstance(stated, dict) and isinstance(stated.get("detail"), dict):
        stated["detail"] = accuracy.with_current_names(stated["detail"])
    if stated != json.loads(score.line()):
        text = f"accuracy.txt says {line[:120]!r}; the whole log scores {score.line()[:160]}"
        yield Fault(text, score.line(), line[:200])
    if not score.passed:
        limits = ", ".join(f"{name.replace('_', ' ')} {value:.5g}" for name, value in score.detail.items())
        text = f"{score.metric} is {score.value:.5g}, at most {score.threshold:g} passes ({limits})"
        yield Fault(text, f"at most {score.threshold:g}", f"{score.value:.5g}")
