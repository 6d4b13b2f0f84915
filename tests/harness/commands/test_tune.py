"""`tune`: which switches are measured together, with which flags, and what is kept."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.commands import tune
from harness.request import tuning as requests
from harness.request.tuning import known
from tests.harness.test_tuned_requests import GAIN
from tests.support.commands import call
from tests.support.synthetic_runs import cell, write


def of(name, low, **changes):
    shown = {"ratio": low + 0.1, "low": low, "different": low > 1}
    return replace(GAIN, switches=(name,), **shown | changes)


def test_switches_that_helped_alone_are_measured_together():
    gains = [of("to-mkldnn", 1.4), of("omp-bind", 1.02), of("huge-pages", 0.98)]
    ((one, names),) = tune._together(gains)
    assert names == ["omp-bind", "to-mkldnn"]
    assert one.sut == GAIN.sut
    assert tune._together(gains[1:]) == []


def test_switches_that_helped_different_cells_are_not_measured_together():
    assert tune._together([of("to-mkldnn", 1.4), of("omp-bind", 1.1, cell="of bfloat16")]) == []


def test_a_gain_of_a_switch_that_no_longer_exists_is_ignored():
    gains = [of("to-mkldnn", 1.4), of("a-former-switch", 1.4), of("freezing", 1.4)]
    assert tune._together(gains) == []


def test_of_switches_that_exclude_each_other_only_the_best_is_taken():
    compiled = {"sut": "native-torch-compile"}
    gains = [
        of("freezing", 1.1, **compiled),
        of("gemm-template", 1.8, **compiled),
        of("omp-bind", 1.1, **compiled),
    ]
    ((_, names),) = tune._together(gains)
    assert names == ["gemm-template", "omp-bind"]


def test_the_second_sweep_has_the_flags_of_one_cell():
    words = ["--sut", "all", "--model", "bert,mistral", "--size", "mid", "--scenario=Offline"]
    lists = ["--precision", "float32,bfloat16", "--batch-size", "8,32", "--seq-len=64,128"]
    assert tune._only([*words, *lists, "--repeats", "5"], GAIN) == [
        *("--repeats", "5", "--sut", "native-torch-eager", "--model", "bert", "--size", "mid"),
        *("--scenario", "Offline", "--precision", "float32", "--batch-size", "32"),
        *("--seq-len", "128"),
    ]
    folder = ["--weights", "folder", "--scenario", "Offline"]
    assert tune._only(folder, GAIN) == folder
    file = ["--model", "/a/model.keras"]
    assert tune._only(file, replace(GAIN, model="model")) == file


def test_gains_of_other_cells_and_machines_are_kept(tmp_path):
    path = tmp_path / "gains.json"
    others = [
        replace(GAIN, machine="b"),
        replace(GAIN, cell="of another length"),
        replace(GAIN, mode="valid"),
        replace(GAIN, versions={"torch": "1.0"}),
    ]
    tune._keep(path, [GAIN, *others])
    again = replace(GAIN, ratio=1.2)
    tune._keep(path, [again])
    assert set(map(repr, known(path))) == set(map(repr, [again, *others]))
    assert isinstance(json.loads(path.read_text()), list)


def test_only_the_sweeps_of_this_command_on_this_machine_count(tmp_path, monkeypatch):
    plain = cell("native-torch-eager")
    tuned = replace(plain, tuned=True, switches=("omp-bind",))
    for sweep, figures in {"old": [100, 100, 100], "new": [200, 200, 200]}.items():
        write(tmp_path, plain, [100, 101, 99], sweep=sweep)
        write(tmp_path, tuned, figures, sweep=sweep)
    monkeypatch.setattr(requests, "this_machine", lambda: "A processor, 2 threads, 8 GiB")
    (gain,) = tune._measured(tmp_path, {"new"})
    assert gain.ratio == pytest.approx(2, rel=0.01)
    assert tune._measured(tmp_path, {"another"}) == []
    monkeypatch.setattr(requests, "this_machine", lambda: "another")
    assert tune._measured(tmp_path, {"new"}) == []


def test_the_id_of_a_sweep_is_that_of_its_folder(tmp_path):
    words = ["--sut", "mock", "--model", "bert", "--scenario", "Offline", "--size", "tiny"]
    id = tune._id([*words, "--again", "--out", str(tmp_path)], "off")
    assert id.startswith("sweep-") and id.endswith("-1")


def test_the_switches_of_a_measurement_are_not_for_the_user_to_name(capsys):
    code, _, error = call(["tune", "--sut", "mock", "--tuned", "on"], capsys)
    assert code == 2
    assert "measures every switch: leave it out, or name some by --switches A,B" in error


@pytest.mark.parametrize("ended", [2, 3])
def test_a_sweep_that_cannot_begin_ends_the_command(monkeypatch, tmp_path, ended):
    seen = []
    monkeypatch.setattr(tune, "_sweep", lambda words, tuned: seen.append(tuned) or ended)
    assert tune.main(["--sut", "mock", "--out", str(tmp_path), "--cache", str(tmp_path)]) == ended
    assert seen == ["each"]


def test_only_the_named_switches_are_measured(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(tune, "_sweep", lambda words, tuned: seen.append(tuned) or 2)
    where = ["--out", str(tmp_path), "--cache", str(tmp_path)]
    tune.main(["--sut", "mock", "--switches", "omp-bind,huge-pages", *where])
    assert seen == ["off,omp-bind,huge-pages"]
