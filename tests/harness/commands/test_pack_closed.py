"""A closed submission of bert-99: it passes by rules with small counts, and by the true ones it is
refused for these counts only.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from compliance import audit, rules
from formats.checks import Verdict
from harness.commands import pack
from harness.measurement import run
from harness.request.request import _PACE, _Pace
from tests.support import squad_files
from tests.support.cells import Reporter, request
from tests.support.rounds import shortened

FEATURES = 84
SMALL = {
    "dataset_size": FEATURES,
    "performance_sample_count": FEATURES,
    "offline_samples": FEATURES,
    "accuracy": {"F1": 0.001},
}


def _rules(monkeypatch, **bert) -> None:
    short = shortened()
    row = dataclasses.replace(short.benchmarks["bert-99"], **bert)
    short = dataclasses.replace(
        short,
        benchmarks={**short.benchmarks, "bert-99": row},
        workloads={"squad": squad_files.as_if_closed(short.workloads["squad"])},
    )
    monkeypatch.setattr(rules, "load", lambda round="v6.1": short)
    monkeypatch.setitem(_PACE, "submission", _Pace(0.1, 3.0, 1 << 20))


def _measured(tmp_path: Path, **changes) -> Path:
    found = run.run(
        request(
            tmp_path / "runs",
            mode="submission",
            duration=None,
            submitter="me",
            options={"latency-ms": 0.5},
            **changes,
        ),
        Reporter(),
        0,
    )
    assert (found.status, found.reason) == ("ok", "")
    return Path(found.directory)


def _failed(tree: Path) -> dict[str, str]:
    """Id of each failed check → its detail."""
    checks = audit.audit(tree).checks_for("submission")
    return {check.id: check.detail for check in checks if check.verdict is Verdict.FAIL}


@pytest.mark.long
def test_both_scenarios_are_a_closed_submission(tmp_path, made_environment, monkeypatch):
    real = rules.load().benchmarks["bert-99"]
    _rules(monkeypatch, **SMALL)
    data, weights = squad_files.write(tmp_path)
    of_bert = {"model": None, "benchmark": "bert-99", "weights": weights, "dataset": data}
    runs = [
        _measured(tmp_path, scenario=scenario, **of_bert)
        for scenario in ("Offline", "SingleStream")
    ]
    pack.pack(runs, tmp_path / "closed", "closed")
    assert _failed(tmp_path / "closed") == {}
    base = tmp_path / "closed" / "closed" / "me"
    assert not (base / "model_mapping.json").exists()
    assert (base / "calibration.md").read_text().startswith("# Calibration")
    pack.pack(runs[:1], tmp_path / "half", "closed")
    assert list(_failed(tmp_path / "half")) == ["scenarios"]
    # By the true counts and the true target.
    true = {name: getattr(real, name) for name in SMALL}
    _rules(monkeypatch, **true)
    failed = _failed(tmp_path / "closed")
    assert set(failed) == {"benchmark", "accuracy-target"}
    assert "bert-99 has at least 10833" in failed["benchmark"]
    assert "bert-99 requires at least 89.96526" in failed["accuracy-target"]
