"""raw/TESTxx → the TESTxx folders of a submission, with the files that run_verification.py of
mlcommons/inference would write.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from compliance import logs
from compliance.audit_tests import speed, test01, test06
from compliance.audit_tests.test01 import Compared
from compliance.rules import Rules
from compliance.scoring import of_run, official
from compliance.scoring.accuracy import Accuracy, variants
from compliance.scoring.official import Scored
from compliance.scoring.value import AnswerBytes
from formats.record import Record

_ANSWERS = "mlperf_log_accuracy.json"
AnyScore = Accuracy | Scored | str
"""A score, the official metric, or why there is none."""


@dataclass(frozen=True)
class Run:
    """The run directory whose compliance tests are written.

    Attributes:
        score: the score of the accuracy test, or why there is none.
        answers: those of the accuracy test.
    """

    directory: Path
    record: Record
    rules: Rules
    score: AnyScore
    answers: AnswerBytes

    def detail(self, test: str) -> logs.Detail:
        """LoadGen's detail log of a test."""
        return logs.read_detail(self.directory / "raw" / test / "mlperf_log_detail.txt")


def write(run: Run, name: str, target: Path) -> None:
    """Write the folder of a compliance test that ended well."""
    rules = run.rules
    rule = rules.compliance_tests[name]
    layout = rules.layout
    scenario = run.record.cell.scenario
    performance = target / layout.performance
    performance.mkdir(parents=True)
    for log in layout.performance_files:
        shutil.copyfile(run.directory / "raw" / name / log, performance / log)
    if rule.tolerance is not None:
        details = (run.detail("performance"), run.detail(name))
        speeds = speed.compare(rule, scenario, rules, *details)
        _write(target / "verify_performance.txt", speed.verify_text(speeds))
    if not rule.sampling_target:
        return
    path = run.directory / "raw" / name / _ANSWERS
    whole = path.read_bytes()
    answers = logs.read_logged(path)
    (target / "accuracy").mkdir()
    kept = rules.truncation.cut(whole) if rule.truncated else whole
    (target / "accuracy" / _ANSWERS).write_bytes(kept)
    if rule.truncated:
        compared = test01.compare(answers.rows, run.answers)
        _write(target / "verify_accuracy.txt", test01.verify_text(compared, len(run.answers)))
        _write_scores(run, compared, hashlib.sha256(whole).hexdigest(), target / "accuracy")
    else:
        required = test06.required_of(run.detail("performance"), scenario)
        text = test06.verify_text(answers, frozenset(run.record.end_tokens), required)
        _write(target / "verify_accuracy.txt", text)


def _write_scores(run: Run, compared: Compared, digest: str, folder: Path) -> None:
    """Write the scores of the accuracy test with the answers of TEST01. `digest`: that of the
    test's answers.
    """
    score = run.score
    if compared.different:
        _write(folder / "baseline_accuracy.txt", f"{_line(run.score)}\n")
        if not isinstance(run.score, str):
            score = _scored(run, compared)
        _write(folder / "compliance_accuracy.txt", f"{_line(score)}\n")
    _write(folder / "accuracy.txt", f"{_line(score)}\nhash={digest}\n")


def _scored(run: Run, compared: Compared) -> AnyScore:
    """The accuracy of the accuracy test, with its answers replaced by those of TEST01."""
    judged = run.record.official
    try:
        if judged:
            changed = next(variants((row.index, row.data) for row in compared.different))
            return official.score(run.directory, judged, {**run.answers, **changed})
        others = [(row.index, row.data) for row in compared.different]
        return of_run.worst(run.directory, run.record.accuracy, run.answers, others)
    except (OSError, ValueError) as e:
        return str(e)


def _line(score: AnyScore) -> str:
    return f"not scored: {score}" if isinstance(score, str) else score.line()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
