"""A closed submission of resnet: it passes by rules with small counts, and by the true ones it is
refused for these counts only.
"""

from __future__ import annotations

import msgspec
import pytest

from compliance import rules
from harness.commands import pack
from tests.harness.commands import test_pack_closed as of_bert
from tests.support import imagenet_files
from tests.support.rounds import shortened

SMALL = {
    "dataset_size": imagenet_files.PICTURES,
    "performance_sample_count": imagenet_files.PICTURES,
    "offline_samples": imagenet_files.PICTURES,
    "accuracy": {"acc": 0.001},
}


def _rules(monkeypatch, **resnet) -> None:
    short = shortened()
    row = msgspec.structs.replace(short.benchmarks["resnet"], **resnet)
    workload = imagenet_files.as_if_closed(short.workloads["imagenet"])
    # Early stopping needs so many queries, however short the test is.
    streams = msgspec.structs.replace(short.scenarios["MultiStream"], least_count=662)
    short = msgspec.structs.replace(
        short,
        scenarios={**short.scenarios, "MultiStream": streams},
        benchmarks={**short.benchmarks, "resnet": row},
        workloads={"imagenet": workload},
    )
    monkeypatch.setattr(rules, "load", lambda round="v6.1": short)
    monkeypatch.setitem(of_bert._PACE, "submission", of_bert._Pace(0.1, 3.0, 1 << 20))


@pytest.mark.long
def test_all_scenarios_are_a_closed_submission(tmp_path, made_environment, monkeypatch):
    real = rules.load().benchmarks["resnet"]
    _rules(monkeypatch, **SMALL)
    data, weights = imagenet_files.write(tmp_path)
    of_resnet = {"model": None, "benchmark": "resnet", "weights": weights, "dataset": data}
    runs = [
        of_bert._measured(tmp_path, scenario=scenario, **of_resnet)
        for scenario in ("Offline", "SingleStream", "MultiStream")
    ]
    pack.pack(runs, tmp_path / "closed", "closed")
    assert of_bert._failed(tmp_path / "closed") == {}
    results = tmp_path / "closed/closed/me/results"
    assert {path.parent.name for path in results.rglob("TEST01")} == set(real.required["edge"])
    assert {path.parent.name for path in results.rglob("TEST04")} == set(real.required["edge"])
    pack.pack(runs[:2], tmp_path / "two", "closed")
    assert list(of_bert._failed(tmp_path / "two")) == ["scenarios"]
    # By the true counts and the true target.
    true = {name: getattr(real, name) for name in SMALL}
    _rules(monkeypatch, **true)
    failed = of_bert._failed(tmp_path / "closed")
    assert set(failed) == {"benchmark", "accuracy-target"}
    assert "resnet has at least 1024" in failed["benchmark"]
    assert "resnet requires at least 75.6954" in failed["accuracy-target"]
