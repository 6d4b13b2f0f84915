"""Closed submissions of the benchmarks: they pass by rules with small counts, and by the true ones
they are refused for these counts only.
"""

from pathlib import Path

import pytest
from msgspec.structs import replace

from compliance import audit, rules
from formats.checks import Verdict
from harness.commands import pack
from tests.support import article_files, imagenet_files, rounds, squad_files
from tests.support.cells import measure, request
from tests.support.rounds import shortened

COUNTS = ("dataset_size", "performance_sample_count", "offline_samples")


def _rules(monkeypatch, name, files, metric, **row):
    """The rules of a short round, in which this row of the benchmark has these values."""
    short = shortened()
    # However short a test is, early stopping needs so many queries.
    counts = {"Server": 700, "MultiStream": 662}
    longer = {each: replace(short.scenarios[each], least_count=n) for each, n in counts.items()}
    rounds.use(monkeypatch, replace(short, scenarios={**short.scenarios, **longer}))
    workload = files.as_if_closed(short.workloads[metric])
    rounds.use_benchmark(monkeypatch, name, metric, workload, **row)


def _measured(tmp_path, **changes):
    flags = {"mode": "submission", "duration": None, "submitter": "me", "model": None}
    asked = request(tmp_path / "runs", options={"latency-ms": 0.5}, **flags, **changes)
    found = measure(asked)
    assert (found.status, found.reason) == ("ok", "")
    return Path(found.directory)


def _failed(tree):
    """Id of each failed check → its detail."""
    checks = audit.audit(tree).checks_for("submission")
    return {check.id: check.detail for check in checks if check.verdict is Verdict.FAIL}


def _of_bert(tree, real):
    base = tree / "closed" / "me"
    assert not (base / "model_mapping.json").exists()
    assert (base / "calibration.md").read_text().startswith("# Calibration")


def _of_llama(tree, real):
    confs = list(tree.rglob("results/*/*/*/user.conf"))
    assert len(confs) == 2
    for path in confs:
        names = {line.partition(" ")[0] for line in path.read_text().splitlines()}
        assert {name.partition(".")[0] for name in names} == {"llama3_1-8b"}
        # These keys are of the open division.
        assert not any("token_lat" in name or "_latency" in name for name in names)
    results = list(tree.rglob("TEST06/verify_accuracy.txt"))
    lines = {path.parts[-3]: path.read_text().splitlines() for path in results}
    assert lines["Offline"][:3] == [
        "First token check pass: Skipped",
        "EOS check pass: True",
        "Sample length check pass: True",
    ]
    assert lines["Server"][0] == "First token check pass: True"


def _of_resnet(tree, real):
    results = tree / "closed/me/results"
    for name in ("TEST01", "TEST04"):
        assert {path.parent.name for path in results.rglob(name)} == set(real.required["edge"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "files", "metric", "count", "target", "scenarios", "least", "check"),
    [
        (
            *("bert-99", squad_files, "squad", 84, {"accuracy": {"F1": 0.001}}),
            *(({}, {"scenario": "SingleStream"}), ("10833", "89.96526"), _of_bert),
        ),
        (
            *("llama3.1-8b", article_files, "summaries", article_files.ARTICLES),
            {"accuracy": {"ROUGE1": 0.0}, "accuracy_at_most": {}},
            *(({}, {"scenario": "Server", "rate": 300.0}), ("13368", "38.391408"), _of_llama),
        ),
        (
            *("resnet", imagenet_files, "imagenet", imagenet_files.PICTURES),
            {"accuracy": {"acc": 0.001}},
            ({}, {"scenario": "SingleStream"}, {"scenario": "MultiStream"}),
            *(("1024", "75.6954"), _of_resnet),
        ),
    ],
)
def test_all_scenarios_are_a_closed_submission(
    tmp_path, monkeypatch, name, files, metric, count, target, scenarios, least,
    check,
):  # fmt: skip
    real = rules.load().benchmarks[name]
    small = dict.fromkeys(COUNTS, count) | target
    _rules(monkeypatch, name, files, metric, **small)
    data, weights = files.write(tmp_path)
    flags = {"benchmark": name, "weights": weights, "dataset": data, "scenario": "Offline"}
    runs = [_measured(tmp_path, **flags | scenario) for scenario in scenarios]
    tree = tmp_path / "closed"
    pack.pack(runs, tree, "closed")
    assert _failed(tree) == {}
    check(tree, real)
    pack.pack(runs[:-1], tmp_path / "part", "closed")
    assert list(_failed(tmp_path / "part")) == ["scenarios"]
    # By the true counts and the true target.
    _rules(monkeypatch, name, files, metric, **{key: getattr(real, key) for key in small})
    failed = _failed(tree)
    assert set(failed) == {"benchmark", "accuracy-target"}
    assert f"{name} has at least {least[0]}" in failed["benchmark"]
    assert f"{name} requires at least {least[1]}" in failed["accuracy-target"]
