"""Closed submissions of bert-99 and of llama3.1-8b: they pass by rules with small counts, and by the
true ones they are refused for these counts only.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from compliance import audit, rules
from compliance.rules import OfficialWorkload
from formats.checks import Verdict
from harness.commands import pack
from harness.measurement import run
from harness.request.request import _PACE, _Pace
from tests.support import article_files, squad_files
from tests.support.cells import Reporter, request
from tests.support.rounds import shortened

FEATURES = 84


def _small(count: int, **more) -> dict:
    """A row of a benchmark with so many samples."""
    counts = ("dataset_size", "performance_sample_count", "offline_samples")
    return dict.fromkeys(counts, count) | more


SMALL = _small(FEATURES, accuracy={"F1": 0.001})
SMALL_LLAMA = _small(article_files.ARTICLES, accuracy={"ROUGE1": 0.0}, accuracy_at_most={})


def _rules(monkeypatch, name: str, workload: OfficialWorkload, **row) -> None:
    short = shortened()
    changed = msgspec.structs.replace(short.benchmarks[name], **row)
    # Early stopping needs more requests of Server.
    server = msgspec.structs.replace(short.scenarios["Server"], least_count=700)
    short = msgspec.structs.replace(
        short,
        benchmarks={**short.benchmarks, name: changed},
        workloads={**short.workloads, workload.metric: workload},
        scenarios={**short.scenarios, "Server": server},
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
    workload = squad_files.as_if_closed(rules.load().workloads["squad"])
    _rules(monkeypatch, "bert-99", workload, **SMALL)
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
    _rules(monkeypatch, "bert-99", workload, **true)
    failed = _failed(tmp_path / "closed")
    assert set(failed) == {"benchmark", "accuracy-target"}
    assert "bert-99 has at least 10833" in failed["benchmark"]
    assert "bert-99 requires at least 89.96526" in failed["accuracy-target"]


@pytest.mark.long
def test_offline_and_server_are_a_closed_submission_of_llama(
    tmp_path, made_environment, monkeypatch
):
    name = "llama3.1-8b"
    real = rules.load().benchmarks[name]
    workload = article_files.as_if_closed(rules.load().workloads["summaries"])
    _rules(monkeypatch, name, workload, **SMALL_LLAMA)
    data, weights = article_files.write(tmp_path)
    of_llama = {"model": None, "benchmark": name, "weights": weights, "dataset": data}
    runs = [
        _measured(tmp_path, scenario="Offline", **of_llama),
        _measured(tmp_path, scenario="Server", rate=300.0, **of_llama),
    ]
    pack.pack(runs, tmp_path / "closed", "closed")
    assert _failed(tmp_path / "closed") == {}
    confs = list((tmp_path / "closed").rglob("results/*/*/*/user.conf"))
    assert len(confs) == 2
    for path in confs:
        names = {line.partition(" ")[0] for line in path.read_text().splitlines()}
        assert {name.partition(".")[0] for name in names} == {"llama3_1-8b"}
        # These keys are of the open division.
        assert not any("token_lat" in name or "_latency" in name for name in names)
    results = list((tmp_path / "closed").rglob("TEST06/verify_accuracy.txt"))
    lines = {path.parts[-3]: path.read_text().splitlines() for path in results}
    assert lines["Offline"][:3] == [
        "First token check pass: Skipped",
        "EOS check pass: True",
        "Sample length check pass: True",
    ]
    assert lines["Server"][0] == "First token check pass: True"
    pack.pack(runs[:1], tmp_path / "half", "closed")
    assert list(_failed(tmp_path / "half")) == ["scenarios"]
    # By the true counts and the true target.
    true = {name: getattr(real, name) for name in SMALL_LLAMA}
    _rules(monkeypatch, name, workload, **true)
    failed = _failed(tmp_path / "closed")
    assert set(failed) == {"benchmark", "accuracy-target"}
    assert f"{name} has at least 13368" in failed["benchmark"]
    assert f"{name} requires at least 38.391408" in failed["accuracy-target"]
