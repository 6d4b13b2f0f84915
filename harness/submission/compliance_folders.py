"""raw/TESTxx → the TESTxx folders of a submission, with the files that run_verification.py of
mlcommons/inference would write.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compliance import logs
from compliance.audit_tests import speed, test01, test06
from compliance.audit_tests.test01 import Compared
from compliance.rules import ComplianceTest, Rules
from compliance.scoring import of_run, official
from compliance.scoring.accuracy import Accuracy, variants
from compliance.scoring.official import Scored
from formats.record import Record
from harness.execution.process import read_outcome

_ANSWERS = "mlperf_log_accuracy.json"
AnyScore = Accuracy | Scored | str
"""A score, the official metric, or why there is none."""


def write(directory: Path, record: Record, rules: Rules, scenario: Path, score: AnyScore) -> None:
    """Write the folder of each compliance test that ended well.

    Args:
        scenario: the folder of the result in the submission.
        score: the score of the accuracy run, or why there is none.
    """
    for name, rule in rules.compliance_tests.items():
        outcome = read_outcome(directory / "raw" / name)
        if outcome is not None and outcome.status == "ok":
            _write_test(_Run(directory, record, rules, score), name, rule, scenario / name)


@dataclass(frozen=True)
class _Run:
    """The run directory whose compliance tests are written."""

    directory: Path
    record: Record
    rules: Rules
    score: AnyScore


def _write_test(run: _Run, name: str, rule: ComplianceTest, target: Path) -> None:
    raw, performance = run.directory / "raw" / name, target / run.rules.layout.performance
    performance.mkdir(parents=True)
    for log in run.rules.layout.performance_files:
        shutil.copyfile(raw / log, performance / log)
    if rule.tolerance is not None:
        details = [
            logs.read_detail(run.directory / "raw" / test / "mlperf_log_detail.txt")
            for test in ("performance", name)
        ]
        compared = speed.compare(rule, run.record.cell.scenario, run.rules, *details)
        (target / "verify_performance.txt").write_text(
            speed.verify_text(compared), encoding="utf-8"
        )
    if rule.sampling_target:
        _write_answers(run, name, rule, target)


def _write_answers(run: _Run, name: str, rule: ComplianceTest, target: Path) -> None:
    (target / "accuracy").mkdir()
    path, score = run.directory / "raw" / name / _ANSWERS, run.score
    whole, test_answers = path.read_bytes(), logs.read_logged(path)
    (target / "accuracy" / _ANSWERS).write_bytes(
        run.rules.truncation.cut(whole) if rule.truncated else whole
    )
    if not rule.truncated:
        ends = frozenset(run.record.end_tokens)
        performance = logs.read_detail(
            run.directory / "raw" / "performance" / "mlperf_log_detail.txt"
        )
        required = test06.required_of(performance, run.record.cell.scenario)
        (target / "verify_accuracy.txt").write_text(
            test06.verify_text(test_answers, ends, required), encoding="utf-8"
        )
        return
    answers = logs.read_accuracy(run.directory / "raw" / "accuracy" / _ANSWERS).payloads
    compared = test01.compare(test_answers.rows, answers)
    (target / "verify_accuracy.txt").write_text(
        test01.verify_text(compared, len(answers)), encoding="utf-8"
    )
    with_test = (
        _scored(run, compared, answers)
        if compared.different and not isinstance(score, str)
        else score
    )
    lines = (
        {"baseline_accuracy.txt": score, "compliance_accuracy.txt": with_test}
        if compared.different
        else {}
    )
    for file, value in {**lines, "accuracy.txt": with_test}.items():
        end = f"hash={hashlib.sha256(whole).hexdigest()}\n" if file == "accuracy.txt" else ""
        (target / "accuracy" / file).write_text(f"{_line(value)}\n{end}", encoding="utf-8")


def _line(score: AnyScore) -> str:
    return f"not scored: {score}" if isinstance(score, str) else score.line()


def _scored(run: _Run, compared: Compared, answers: Mapping[int, bytes]) -> AnyScore:
    """The accuracy of the accuracy run, with its answers replaced by those of the test."""
    judged = run.record.official
    if judged:
        changed = next(variants((row.index, row.data) for row in compared.different))
        try:
            return official.score(run.directory, judged, {**answers, **changed})
        except (OSError, ValueError) as e:
            return str(e)
    try:
        others = [(row.index, row.data) for row in compared.different]
        return of_run.worst(run.directory, run.record.accuracy, answers, others)
    except ValueError as e:
        return str(e)
