"""Results of mlcommons/endpoints, which have no LoadGen logs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from compliance import audit, rules
from compliance.findings.verdict import Audit
from formats.checks import Verdict
from tests.support import tree as runs

SEEDS = rules.load("v6.1").seeds
SUMMARY = {
    "n_samples_issued": 100,
    "n_samples_completed": 100,
    "n_samples_failed": 0,
    "duration_ns": 700_000_000_000,
    "qps": 100 / 700,
    "latency": {"min": 1.0, "avg": 2.0, "max": 3.0},
    "ttft": {"min": 1.0, "avg": 1.0, "max": 1.0},
}
CONFIG = f"""\
type: offline
settings:
  runtime:
    min_duration_ms: 600000
    dataloader_random_seed: {SEEDS["sample_index_rng_seed"]}
    scheduler_random_seed: {SEEDS["schedule_rng_seed"]}  # of the round
"""


def _write(folder: Path, summary: dict[str, Any], config: str = CONFIG) -> Path:
    for name, value in (
        ("performance/result_summary.json", summary),
        ("accuracy/accuracy_results.json", {"accuracy_scores": [{"score": 80.5}]}),
    ):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(json.dumps(value))
    (folder / "config.yaml").write_text(config)
    return folder


def _failed(report: Audit) -> list[str]:
    return [c.id for c in report.checks_for("valid") if c.verdict is Verdict.FAIL]


def test_a_good_result_passes_and_is_named(tmp_path: Path) -> None:
    report = audit.audit(_write(tmp_path / "Offline", SUMMARY))
    assert not _failed(report) and report.passes("quick", strict=False)
    assert "mlcommons/endpoints" in report.results[0].verdict
    assert any("has no LoadGen logs" in c.detail for c in report.checks)


@pytest.mark.parametrize(
    ("changed", "check"),
    [
        ({"n_samples_failed": 1, "n_samples_completed": 99}, "performance-errors"),
        ({"n_samples_completed": 99}, "counts"),
        ({"qps": 1.0}, "counts"),
        ({"duration_ns": "long"}, "counts"),
        ({"latency": {"min": 2.5, "avg": 2.0, "max": 3.0}}, "latencies"),
        ({"ttft": {"min": 0, "avg": 0, "max": 0}}, "latencies"),
    ],
)
def test_figures_that_contradict_one_another_fail(
    tmp_path: Path, changed: dict[str, Any], check: str
) -> None:
    report = audit.audit(_write(tmp_path / "Offline", {**SUMMARY, **changed}))
    assert check in _failed(report)


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("min_duration_ms: 600000", "min_duration_ms: 60000", "minimum-duration-setting"),
        ("scheduler_random_seed: ", "scheduler_random_seed: 1 #", "performance-seeds"),
    ],
)
def test_settings_of_another_round_fail(tmp_path: Path, old: str, new: str, check: str) -> None:
    folder = _write(tmp_path / "Offline", SUMMARY, CONFIG.replace(old, new))
    assert _failed(audit.audit(folder)) == [check]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = _write(tmp_path / "Offline", SUMMARY)
    (folder / "config.yaml").unlink()
    report = audit.audit(folder)
    assert _failed(report) == ["files-complete"] and not report.passes("quick", strict=False)


def test_one_in_a_submission_is_no_broken_tree(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "open", tmp_path / "open")
    system = tmp_path / "open" / runs.SUBMITTER / "results" / runs.SYSTEM
    _write(system / "llama3.1-8b" / "Offline", SUMMARY)
    report = audit.audit(tmp_path)
    of_it = [c for c in report.checks if "llama3.1-8b" in c.place]
    assert of_it and not [c for c in of_it if c.verdict is Verdict.FAIL]
    assert len(report.results) == 2
