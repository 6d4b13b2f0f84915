"""The checks of the accuracy score, computed again from the whole log and the reference, and of its
tolerance.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compliance import logs
from compliance.findings.check import judge, manual, mismatch, not_applicable, shorten
from compliance.logs import files, strict_json
from compliance.scoring import accuracy
from compliance.subject import Subject
from formats.checks import Check, Fault
from formats.record import Judged

_SCORE = "see the answers in raw/accuracy, reference.npz and the tolerance in record.json"
_REFERENCE = "measure where the reference can be made: see the reason in record.json"


def checks(subject: Subject, answers: logs.Answers | None, fault: str) -> list[Check]:
    """The checks of the score and its tolerance.

    Args:
        answers: the whole log of answers; None: `fault` says why it cannot be read.
    """
    unjudged = (
        [Fault("no reference was there to judge its accuracy by", "a reference", "none")]
        if subject.place.run and subject.no_reference
        else []
    )
    return [
        _score(subject, answers, fault),
        _tolerance(subject),
        judge("accuracy-judged", unjudged, "against a reference", fix=_REFERENCE),
    ]


def checks_of_truncated(subject: Subject, why: str) -> list[Check]:
    """The checks if there is only a truncated log. No score can be computed from it, for the reason
    `why`.
    """
    return [_score_unverified(subject, why), _tolerance(subject)]


def _score(subject: Subject, answers: logs.Answers | None, fault: str) -> Check:
    where = {"file": subject.place.show(subject.accuracy.folder / "accuracy.txt"), "fix": _SCORE}
    line = (subject.accuracy_text or "").split("\n", 1)[0]
    if subject.place.run is None:
        return _score_unverified(
            subject,
            "a submission without a run directory around it holds no reference to score against",
        )
    if subject.record is None:
        return judge("accuracy-score", [f"cannot be taken again: {subject.no_record}"], "", **where)
    if subject.no_reference:
        return manual("accuracy-score", f"not judged: {subject.record.accuracy.reason}", **where)
    if answers is None:
        return judge("accuracy-score", [fault], "", **where)
    reference, why = files.attempt(files.arrays, subject.place.run / "reference.npz")
    raw = subject.place.run / "raw" / "accuracy"
    (forced, forced_why), (own, own_why) = (
        _logits(raw / name) for name in ("logits.npy", "own_logits.npy")
    )
    if reference is None or forced_why or own_why:
        return judge(
            "accuracy-score",
            [f"cannot be taken again: {why or forced_why or own_why}"],
            "",
            **where,
        )
    judged = subject.record.accuracy
    score, why = files.reckon(lambda: _score_again(judged, answers, reference, forced, own))
    if score is None:
        return judge("accuracy-score", [f"cannot be taken again: {why}"], "", **where)
    return judge(
        "accuracy-score",
        [*_score_faults(score, line), *_admitted_failures(subject)],
        f"{score.metric} {score.value:.5g}, at most {score.threshold:g}",
        **where,
    )


def _score_unverified(subject: Subject, why: str) -> Check:
    """The check of a score that cannot be computed again. It fails if accuracy.txt says that the
    score failed. Otherwise a person has to judge.
    """
    where = {"file": subject.place.show(subject.accuracy.folder / "accuracy.txt"), "fix": _SCORE}
    if not any(
        line.strip("\ufeff\0 \t") and not line.startswith("hash=")
        for line in (subject.accuracy_text or "").splitlines()
    ):
        return judge("accuracy-score", ["accuracy.txt holds no score"], "", **where)
    if failures := list(_admitted_failures(subject)):
        return judge("accuracy-score", failures, "", **where)
    return manual(
        "accuracy-score",
        why,
        **{
            **where,
            "fix": "judge the score that accuracy.txt states by the benchmark's own metric",
        },
    )


def _admitted_failures(subject: Subject) -> Iterator[Fault]:
    """Yield a fault for each line of accuracy.txt that is JSON and says that the score did not
    pass.
    """
    for number, line in enumerate((subject.accuracy_text or "").splitlines(), 1):
        document, _ = files.reckon(partial(strict_json.parse, line.strip("\ufeff \t")))
        if isinstance(document, dict) and "passed" in document and document["passed"] is not True:
            yield Fault(
                f"accuracy.txt says of itself that it did not pass: {line[:160]}",
                "passed: true",
                line[:160],
                line=number,
            )


def _logits(path: Path) -> tuple[np.ndarray | None, str]:
    """(the logits of a file, why they cannot be read). Without the file it is (None, ""), as for a
    model that does not generate.
    """
    try:
        path.lstat()
    except OSError:
        return None, ""
    return files.attempt(files.array, path)


def _score_again(
    judged: Judged,
    answers: logs.Answers,
    reference: dict[str, np.ndarray],
    forced: np.ndarray | None,
    own: np.ndarray | None,
) -> accuracy.Accuracy:
    """The score, computed again. Raises one of files.DAMAGE if record.json, answers and reference
    do not fit together.
    """
    return accuracy.score(
        judged.score,
        answers.payloads,
        reference,
        judged.tolerance,
        judged.keys,
        logits=forced,
        own=own,
    )


def _score_faults(score: accuracy.Accuracy, line: str) -> Iterator[Fault | str]:
    document, _ = files.attempt(lambda _: strict_json.parse(line), Path("accuracy.txt"))
    if isinstance(document, dict) and isinstance(document.get("detail"), dict):
        document["detail"] = accuracy.with_current_names(document["detail"])
    if document != json.loads(score.line()):
        text = f"accuracy.txt says {line[:120]!r}; the whole log scores {score.line()[:160]}"
        yield Fault(text, score.line(), line[:200])
    if not score.passed:
        limits = ", ".join(
            f"{name.replace('_', ' ')} {value:.5g}" for name, value in score.detail.items()
        )
        text = f"{score.metric} is {score.value:.5g}, at most {score.threshold:g} passes ({limits})"
        yield Fault(text, f"at most {score.threshold:g}", f"{score.value:.5g}")


def _tolerance(subject: Subject) -> Check:
    """The check of record.json's tolerance against the round's limits. A record must not choose its
    own tolerance.
    """
    where = {
        "file": "record.json",
        "fix": "judge by the tolerance of the model's own file: measure again",
    }
    if subject.place.run is None:
        return not_applicable(
            "tolerance", "a submission without a run directory around it has none", **where
        )
    return judge("tolerance", _too_loose(subject), "within the round's limits", **where)


def _too_loose(subject: Subject) -> Iterator[Fault]:
    if subject.record is None:
        yield Fault(subject.no_record)
        return
    score, precision = subject.record.accuracy.score, subject.record.cell.precision
    tolerance = accuracy.with_current_names(subject.record.accuracy.tolerance)
    limits = subject.rules.project_limits.tolerance.get(score, {}).get(precision)
    if limits is None:
        yield Fault(
            f"{subject.rules.round} has no tolerance for the score {shorten(score)} in"
            f" {shorten(precision)}"
        )
        return
    for word, sign, bounds in (("at most", 1, limits.at_most), ("at least", -1, limits.at_least)):
        for name, bound in _limits(bounds, tolerance):
            value = tolerance.get(name)
            if not isinstance(value, int | float) or not sign * value <= sign * bound:
                yield mismatch(
                    f"accuracy.tolerance.{name}",
                    value,
                    f"{word} {bound:g}",
                    f"{score} in {precision} may have",
                )


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
