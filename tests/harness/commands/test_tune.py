"""`tune`: which switches are measured together, with which flags, and what is kept."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.commands import tune
from harness.request.tuning import known
from tests.harness.test_tuned_requests import GAIN
from tests.support.commands import call


def of(name, low, **changes):
    return replace(GAIN, switches=(name,), ratio=low + 0.1, low=low, **changes)


def test_switches_that_helped_alone_are_measured_together():
    gains = [of("to-mkldnn", 1.4), of("omp-bind", 1.02), of("huge-pages", 0.98)]
    ((one, names),) = tune._together(gains)
    assert names == ["omp-bind", "to-mkldnn"]
    assert one.sut == GAIN.sut
    assert tune._together(gains[1:]) == []


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
    words = ["--sut", "all", "--model", "bert,mistral", "--size", "base", "--scenario=Offline"]
    assert tune._only([*words, "--repeats", "5"], GAIN) == [
        *("--size", "base", "--repeats", "5"),
        *("--sut", "native-torch-eager", "--model", "bert", "--scenario", "Offline"),
    ]


def test_gains_of_other_cells_and_machines_are_kept(tmp_path):
    path = tmp_path / "gains.json"
    others = [replace(GAIN, machine="b"), replace(GAIN, model="mistral")]
    tune._keep(path, [GAIN, *others])
    again = replace(GAIN, ratio=1.2)
    tune._keep(path, [again])
    assert set(map(repr, known(path))) == set(map(repr, [again, *others]))
    assert isinstance(json.loads(path.read_text()), list)


def test_the_switches_of_a_measurement_are_not_for_the_user_to_name(capsys):
    code, _, error = call(["tune", "--sut", "mock", "--tuned", "on"], capsys)
    assert code == 2
    assert "measures every switch: leave it out" in error


@pytest.mark.parametrize("ended", [2, 3])
def test_a_sweep_that_cannot_begin_ends_the_command(monkeypatch, tmp_path, ended):
    seen = []
    monkeypatch.setattr(tune, "_sweep", lambda words, tuned: seen.append(tuned) or ended)
    assert tune.main(["--sut", "mock", "--out", str(tmp_path), "--cache", str(tmp_path)]) == ended
    assert seen == ["each"]
