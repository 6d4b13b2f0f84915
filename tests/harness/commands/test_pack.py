"""--mode submission and pack, on the mock, with the round's ten minutes shortened to a third of a
second.
"""

import dataclasses
import shutil
from pathlib import Path

import pytest

from formats.checks import Verdict
from harness.commands import pack
from harness.errors import UsageError
from harness.execution.environments import ROOT
from tests.support.cells import measure, request
from tests.support.commands import call
from tests.support.files import read_json, update_json
from tests.support.rounds import short_round

__all__ = ["short_round"]


CELLS = {
    "single": {"scenario": "SingleStream", "model": "bert"},
    "offline": {"scenario": "Offline", "model": "mistral"},
    "batch-32": {"scenario": "Offline", "model": "mistral", "batch_size": 32},
}


@pytest.fixture(scope="session")
def measured_once(tmp_path_factory):
    """Name → run directory of a good cell, measured the first time it is asked for."""
    root, found = tmp_path_factory.mktemp("submissions"), {}

    def directory(name):
        if name not in found:
            flags = {"mode": "submission", "duration": None, **CELLS[name]}
            asked = request(root, options={"latency-ms": 0.5}, **flags)
            result = measure(asked)
            assert (result.status, result.reason) == ("ok", "")
            found[name] = Path(result.directory)
        return found[name]

    return directory


@pytest.fixture
def measured(short_round, measured_once):
    return measured_once


def test_a_submission_holds_all_levels_and_carries_the_source_that_ran(measured):
    directory = measured("single")
    assert read_json(directory / "result.json")["levels"] == ["quick", "valid", "submission"]
    source = next(directory.glob("open/*/src/bert-tiny"))
    assert (source / "sut" / "mock.py").read_bytes() == (ROOT / "sut" / "mock.py").read_bytes()
    assert not list(source.rglob("__pycache__"))


@pytest.mark.long
def test_two_packs_of_the_same_cells_have_the_same_bytes(measured, tmp_path):
    chosen = [measured("single"), measured("offline")]
    checks = pack.pack(chosen, tmp_path / "one")
    pack.pack(chosen[::-1], tmp_path / "two")
    assert pack.digest(tmp_path / "one") == pack.digest(tmp_path / "two")
    assert not [c.line() for c in checks if c.verdict is Verdict.FAIL]
    base = next((tmp_path / "one" / "open").iterdir())
    assert read_json(base / "model_mapping.json") == {
        "bert-tiny": "bert-99",
        "mistral-tiny": "llama3.1-8b-edge",
    }
    folders = sorted("/".join(path.parts[-2:]) for path in base.glob("results/*/*/*"))
    assert folders == ["bert-tiny/SingleStream", "mistral-tiny/Offline"]


def test_a_folder_above_gives_each_cells_newest_good_run(measured, tmp_path):
    first = measured("single")
    root = tmp_path / "runs"
    shutil.copytree(first.parent, root / "cell", ignore=shutil.ignore_patterns(".lock"))
    for name in ("submission-2", "submission-10", "submission-11", "quick-3"):
        shutil.copytree(first, root / "cell" / name)
    (root / "cell" / "submission-11" / "result.json").write_text('{"status": "error"}')
    assert [r.directory.name for r in pack._runs(root)] == ["submission-10"]


def test_two_batch_sizes_of_one_benchmark_are_refused(measured, tmp_path):
    words = "are both the result .*mistral-tiny/Offline, of which a system has only one"
    with pytest.raises(UsageError, match=f"batch 4.* and .*batch 32.* {words}"):
        pack.pack([measured("offline"), measured("batch-32")], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("key", pack._CONFIGURATION)
def test_two_configurations_of_one_benchmark_are_refused_though_the_scenario_differs(
    measured, tmp_path, key
):
    one = pack._measured(measured("single"))
    copy = as_offline(one.directory, tmp_path / "copy")
    change = {key: {"another": 1} if key == "options" else "another"}
    other = pack.Measured(copy, dataclasses.replace(one.cell, scenario="Offline", **change))
    with pytest.raises(UsageError, match=f"two configurations .{key} "):
        pack._merged([one, other])


@pytest.mark.parametrize(
    ("official", "why"),
    [
        (None, "was measured without --benchmark"),
        (
            {"metric": "squad", "suite": "edge", "files": {}, "not_closed": ["vocab_size 9"]},
            r"may not enter the closed division \(vocab_size 9\)",
        ),
    ],
)
def test_a_run_that_may_only_enter_the_open_division_is_not_packed_as_closed(
    measured, tmp_path, monkeypatch, official, why
):
    monkeypatch.setattr(pack, "_must_hold", lambda run: None)
    copy = Path(shutil.copytree(measured("single"), tmp_path / "copy"))
    update_json(copy / "record.json", official=official)
    with pytest.raises(UsageError, match=why):
        pack.pack([copy], tmp_path / "closed", "closed")


@pytest.mark.parametrize("cell", [None, [], {"sut": "mock"}])
def test_a_record_of_another_revision_is_refused(measured, tmp_path, cell):
    copy = Path(shutil.copytree(measured("single"), tmp_path / "copy"))
    update_json(copy / "record.json", cell=cell)
    with pytest.raises(UsageError, match="measure it again"):
        pack.pack([copy], tmp_path / "out")


def as_offline(directory, target):
    """A copy whose result is in the folder of another scenario."""
    shutil.copytree(directory, target)
    place = next(target.glob("open/*/results/*/bert-tiny/SingleStream"))
    place.rename(place.with_name("Offline"))
    return target


def changed(directory, target, pattern, old, new):
    """A copy with one text replaced in the files of a pattern."""
    shutil.copytree(directory, target)
    for path in target.glob(pattern):
        path.write_text(path.read_text().replace(old, new))
    return target


def test_another_description_of_the_system_is_refused(measured, tmp_path):
    old, new = (f'"cooling": "{how}"' for how in ("N/A", "water"))
    other = changed(measured("offline"), tmp_path / "copy", "open/*/systems/*.json", old, new)
    with pytest.raises(UsageError, match="cooling: 'N/A' and 'water'"):
        pack.pack([measured("single"), other], tmp_path / "out")


def test_another_source_of_one_benchmark_is_refused(measured, tmp_path):
    other = as_offline(measured("single"), tmp_path / "copy")
    (next(other.glob("open/*/src/bert-tiny")) / "run.sh").write_text("echo another")
    words = r"run\.sh differs \(they were measured with different sources\)"
    with pytest.raises(UsageError, match=words):
        pack._merged([pack._measured(measured("single")), pack._measured(other)])


def test_two_submitters_are_refused(measured, tmp_path):
    other = tmp_path / "copy"
    shutil.copytree(measured("offline"), other)
    (other / "open" / "unofficial").rename(other / "open" / "somebody")
    with pytest.raises(UsageError, match="a submission has one submitter"):
        pack._merged([pack._measured(measured("single")), pack._measured(other)])


def test_what_does_not_hold_is_refused_by_its_first_finding(measured, tmp_path):
    source, spin = "open/*/src/*/sut/mock.py", "_SPIN_NS = 200_000"
    broken = changed(measured("single"), tmp_path / "broken", source, spin, "_SPIN_NS = 1")
    with pytest.raises(UsageError, match="the audit fails at level submission: .*submitted source"):
        pack.pack([broken], tmp_path / "out")


def test_a_quick_run_is_refused(measured, tmp_path):
    quick = Path(shutil.copytree(measured("single"), tmp_path / "quick-1"))
    update_json(quick / "record.json", mode="quick")
    words = "was measured in mode quick; measure it with --mode submission"
    with pytest.raises(UsageError, match=words):
        pack.pack([quick], tmp_path / "out")


def test_a_folder_with_something_in_it_is_left_alone(measured, tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UsageError, match="already has files"):
        pack.pack([measured("single")], tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["nowhere"], "no such directory"), (["."], "has no run of --mode submission with status ok")],
)
def test_nothing_to_pack_is_said(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, _, said = call(["pack", *arguments, "--out", tmp_path / "out"], capsys)
    assert code == 2 and words in said
