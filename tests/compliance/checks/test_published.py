"""What published submissions have and the checkers of their rounds accept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compliance import audit
from compliance.checks.logs import latencies
from compliance.loadgen.latency_keys import PERCENTILES, SAMPLES
from compliance.logs import Detail
from formats.checks import Check, RequiredBy, Verdict


@pytest.fixture
def theirs(run: Path, tmp_path: Path) -> Path:
    """The good tree as another submitter's, without its run directory."""
    root = tmp_path / "theirs"
    shutil.copytree(run / "open", root / "open")
    return root


def _scenario(root: Path) -> Path:
    (folder,) = root.glob("open/*/results/*/*/*")
    return folder


def _failed(root: Path) -> dict[str, Check]:
    checks = audit.audit(root).checks_for("quick")
    return {c.id: c for c in checks if c.verdict is Verdict.FAIL}


def _of_several_models(root: Path, target: str = "1") -> None:
    """Let user.conf have the lines of several models, and none of the folder's name."""
    conf = _scenario(root) / "user.conf"
    text = conf.read_text(encoding="utf-8").replace("bert-tiny.", "bert.")
    assert "bert.Offline.target_qps = " in text
    if target != "1":
        text = text.replace("bert.Offline.target_qps = ", f"bert.Offline.target_qps = {target}")
    others = "bert-interactive.Offline.target_qps = 2\nbert-interactive.Offline.min_duration = 3\n"
    conf.write_text(others + text, encoding="utf-8")


def test_a_user_conf_may_serve_several_models(theirs: Path) -> None:
    _of_several_models(theirs)
    assert not _failed(theirs)


def test_a_setting_that_no_model_of_user_conf_has_fails(theirs: Path) -> None:
    _of_several_models(theirs, target="9")
    failed = _failed(theirs)
    assert list(failed) == ["performance-requested-settings"]
    assert "bert.Offline.target_qps" in failed["performance-requested-settings"].detail


@pytest.mark.parametrize(
    "name", ["summary.html", "cpu_info.json", "performance/run_1/metadata.json"]
)
def test_files_of_the_official_tools_may_be_there(theirs: Path, name: str) -> None:
    (_scenario(theirs) / name).write_text("x")
    assert not _failed(theirs)


@pytest.mark.parametrize(
    ("old", "new", "required_by"),
    [
        ('"retraining"', '"retraining": "no",\n "retraining"', RequiredBy.RULES),
        ('"weight_data_types"', '"weight_data_typed"', RequiredBy.CHECKER),
    ],
)
def test_the_checker_reads_a_key_twice_and_misses_one_that_is_gone(
    theirs: Path, old: str, new: str, required_by: RequiredBy
) -> None:
    path = _scenario(theirs) / "measurements.json"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert _failed(theirs)["measurements-json"].required_by is required_by


@pytest.mark.parametrize(
    ("hashes", "required_by"), [("", RequiredBy.LOGS), ("hash=" + "1" * 64, RequiredBy.RULES)]
)
def test_published_results_have_two_hashes_and_never_none(
    theirs: Path, hashes: str, required_by: RequiredBy
) -> None:
    path = _scenario(theirs) / "accuracy" / "accuracy.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = lines if hashes else [line for line in lines if not line.startswith("hash=")]
    path.write_text("\n".join([*kept, hashes, ""]), encoding="utf-8")
    assert _failed(theirs)["accuracy-hash"].required_by is required_by


@pytest.mark.parametrize(("samples", "faults"), [(7_920_000, 0), (24_576, 1)])
def test_a_sum_of_latencies_beyond_63_bits_has_no_mean(samples: int, faults: int) -> None:
    low, high = 2_448_658_552, 1_180_000_000_000
    values = {SAMPLES.percentile.format(name): high for name in PERCENTILES}
    values |= {SAMPLES.minimum: low, SAMPLES.maximum: high, SAMPLES.mean: low - 1}
    values |= {"generated_samples_per_query": samples}
    found = latencies._latency_faults(SAMPLES, Detail(values, {}, (), (), ()))
    assert len(list(found)) == faults
