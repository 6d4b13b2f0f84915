"""The checks of the accuracy score, computed again from the whole log and the reference, and of its
tolerance.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from compliance import logs
from compliance.findings.check import failed, judge, manual, mismatch, shorten
from compliance.logs import files, strict_json
from compliance.rules import Rules
from compliance.scoring import accuracy, of_run, official
from compliance.subject import NO_RECORD, Subject
from formats.checks import Check, Fault, Faults
from formats.record import Record

_ID = "accuracy-score"
_SCORE = "see the answers in raw/accuracy, reference.npz and the tolerance in record.json"
_METRIC = (
    "take the weights of the benchmark, and the precision in which they reach its accuracy; see the"
    " answers in raw/accuracy and the files in benchmark/"
)
_SCORE_AGAIN = "score the answers again: accuracy.txt is what the benchmark's script prints"
_STATED = "judge the score that accuracy.txt states by the benchmark's own metric"
_NO_RUN = "a submission without a run directory around it has no reference to score against"


def judged(subject: Subject) -> Check:
    """The check that there was a reference to judge the accuracy."""
    unjudged = []
    if subject.no_reference:
        text = "there was no reference to judge its accuracy"
        unjudged.append(Fault(text, "a reference", "none"))
    return judge("accuracy-judged", unjudged, "against a reference")


def check(subject: Subject, answers: logs.Answers | None, fault: str) -> Check:
    """The check of the score.

    Args:
        answers: the whole log of answers; None: `fault` says why it cannot be read.
    """
    where = {"file": subject.accuracy_file, "fix": _SCORE}
    record = subject.record
    if subject.place.run is None:
        return unverified(subject, _NO_RUN)
    if record is None:
        return failed(_ID, f"cannot be computed again: {NO_RECORD}", **where)
    if record.official:
        where["fix"] = _METRIC
    elif subject.no_reference:
        return manual(_ID, f"not judged: {record.accuracy.reason}", **where)
    if answers is None:
        return failed(_ID, fault, **where)
    compute = _official if record.official else _of_reference
    found, why = files.reckon(partial(compute, subject, subject.place.run, record, answers))
    if found is None:
        return failed(_ID, f"cannot be computed again: {why}", **where)
    stated = (subject.accuracy_text or "").split("\n")
    faults: list[Fault | str] = []
    for line, right in zip(stated, found.lines, strict=False):
        if line != right:
            text = f"accuracy.txt says {line[:120]!r}; the whole log scores {right[:160]}"
            faults.append(Fault(text, right, line[:200]))
    return judge(_ID, [*faults, *found.faults], found.good, **where)


@dataclass(frozen=True)
class _Again:
    """The scores that were computed again.

    Attributes:
        lines: those that accuracy.txt must begin with.
        good: what a reader is told if there is no fault.
    """

    lines: tuple[str, ...]
    faults: tuple[Fault | str, ...]
    good: str


def _of_reference(subject: Subject, run: Path, record: Record, answers: logs.Answers) -> _Again:
    """The score against the reference, which is the verdict of other runs than of `--benchmark`."""
    score = of_run.score(run, record.accuracy, answers.payloads)
    faults = [*_admitted_failures(subject)]
    if not score.passed:
        limit = f"at most {score.threshold:g}"
        faults.append(Fault(score.sentence, limit, f"{score.value:.5g}"))
    good = f"{score.metric} {score.value:.5g}, at most {score.threshold:g}"
    return _Again((score.line(),), tuple(faults), good)


def _official(subject: Subject, run: Path, record: Record, answers: logs.Answers) -> _Again:
    """The official metric, which is the verdict of a run of `--benchmark`."""
    assert record.official is not None
    scored = official.score(run, record.official, answers.payloads)
    name = record.benchmark.official
    row = subject.rules.benchmarks.get(name)
    if row is None:
        raise ValueError("the round has no such benchmark")
    lines = [scored.line()]
    if not subject.no_reference:
        score = of_run.score(run, record.accuracy, answers.payloads)
        lines.append(accuracy.beside_metric(score.line()))
    beyond = tuple(official.beyond(scored.values, row.of(subject.place.scenario)))
    good = f"{scored.line()}, as {name} requires"
    if beyond and record.official.not_closed:
        good = f"{scored.line()}; only for the open division, which has no target: {beyond[0]}"
        beyond = ()
    return _Again(tuple(lines), beyond, good)


def unverified(subject: Subject, why: str) -> Check:
    """The check of a score that cannot be computed again. It fails if accuracy.txt says that the
    score failed. Otherwise a person has to judge.
    """
    file = subject.accuracy_file
    stated = []
    for line in (subject.accuracy_text or "").splitlines():
        if line.strip("\ufeff\0 \t") and not line.startswith("hash="):
            stated.append(line)
    no_score = subject.faults.get(file, "accuracy.txt has no score")
    faults = list(_admitted_failures(subject)) if stated else [Fault(no_score)]
    if faults:
        return judge(_ID, faults, "", file, fix=_SCORE_AGAIN)
    return manual(_ID, why, file=file, fix=_STATED)


def _admitted_failures(subject: Subject) -> Iterator[Fault]:
    """Yield a fault for each line of accuracy.txt that is JSON and says that the score did not
    pass.
    """
    for number, line in enumerate((subject.accuracy_text or "").splitlines(), 1):
        document, _ = files.reckon(partial(strict_json.parse, line.strip("\ufeff \t")))
        if isinstance(document, dict) and "passed" in document and document["passed"] is not True:
            excerpt = line[:160]
            text = f"accuracy.txt says that the score did not pass: {excerpt}"
            yield Fault(text, "passed: true", excerpt, line=number)


def tolerance(subject: Subject) -> Check:
    """The check of record.json's tolerance against the round's limits. A record must not choose its
    own tolerance.
    """
    faults = _too_loose(subject.recorded, subject.rules)
    return judge("tolerance", faults, "within the round's limits", "record.json")


def _too_loose(record: Record, rules: Rules) -> Faults:
    score = record.accuracy.score
    precision = record.cell.judged_precision
    tolerance = record.accuracy.tolerance
    limits = rules.project_limits.tolerance.get(score, {}).get(precision)
    if limits is None:
        of = f"the score {shorten(score)} in {shorten(precision)}"
        yield Fault(f"{rules.round} has no tolerance for {of}")
        return
    for word, sign, bounds in (("at most", 1, limits.at_most), ("at least", -1, limits.at_least)):
        for name, bound in _limits(bounds, tolerance):
            value = tolerance.get(name)
            if not isinstance(value, int | float) or not sign * value <= sign * bound:
                who = f"{score} in {precision} may have"
                yield mismatch(f"accuracy.tolerance.{name}", value, f"{word} {bound:g}", who)


def _limits(
    bounds: Mapping[str, float], tolerance: Mapping[str, Any]
) -> Iterator[tuple[str, float]]:
    """(name, bound) of each limit to judge. A name with `*` stands for all names in the tolerance
    that match.
    """
    for limit, bound in bounds.items():
        names = fnmatch.filter(tolerance, limit) if "*" in limit else [limit]
        for name in names:
            yield name, bound
