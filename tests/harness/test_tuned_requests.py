"""`--tuned` → the switches of a cell, its name and what its worker gets."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace

import pytest

from formats.cell import cell_words
from formats.tuning import Gain
from harness.errors import UsageError
from harness.request import options, tuning
from tests.support.cells import request

GAIN = Gain(
    sut="native-torch-eager",
    architecture="bert",
    model="bert",
    size="mid",
    task="predict",
    scenario="Offline",
    precision="float32",
    batch_size=32,
    seq_len=128,
    prompt_tokens=None,
    new_tokens=None,
    rate=None,
    device="cpu",
    cell="0123abcd",
    mode="quick",
    switches=("omp-bind",),
    unit="samples/s",
    figure=110.0,
    plain_figure=100.0,
    ratio=1.1,
    low=1.05,
    high=1.15,
    different=True,
    repeats=3,
    accuracy=1e-6,
    accuracy_limit=1e-5,
    status="ok",
    reason="",
    machine="another machine",
    versions=tuning._versions("native-torch-eager", "cpu", None),
)


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Write the gains that come with the harness."""

    def write(*gains):
        path = tmp_path / "shipped.json"
        path.write_text(json.dumps([asdict(gain) for gain in gains]))
        monkeypatch.setattr(tuning, "_SHIPPED", path)

    write()
    return write


def asked(tmp_path, tuned, **changes):
    flags = {"sut": "native-torch-eager", "scenario": "Offline", "size": "tiny"}
    return request(tmp_path, tuned=tuned, cache=tmp_path, **flags | changes)


def test_without_the_flag_the_cell_has_its_former_name(tmp_path):
    plain = asked(tmp_path, "off")
    assert plain.tuned == tuning.Tuned()
    cell = plain.cell()
    assert cell.digest == replace(cell, tuned=False, switches=()).digest
    assert "tuned" not in cell_words(cell) and "tuned" not in plain.label


def test_named_switches_are_part_of_the_cell_and_reach_the_worker(tmp_path):
    tuned = asked(tmp_path, "to-mkldnn+omp-bind")
    cell = tuned.cell()
    assert cell.tuned and cell.switches == ("omp-bind", "to-mkldnn")
    assert cell.digest != asked(tmp_path, "off").cell().digest
    assert "tuned" in cell_words(cell)
    assert "tuned=omp-bind+to-mkldnn" in tuned.label
    assert tuned.tuned.settings == {"to-mkldnn": "on"}
    assert tuned.tuned.variables["OMP_PROC_BIND"] == "close"


def test_on_takes_the_best_set_that_is_shown_to_help(tmp_path, shipped):
    chance = replace(GAIN, switches=("to-mkldnn",), ratio=1.9, different=False)
    both = replace(GAIN, switches=("omp-bind", "to-mkldnn"), ratio=1.5, low=1.4)
    failed = replace(GAIN, switches=("malloc-keeps",), ratio=None, low=None, status="invalid")
    shipped(GAIN, chance, both, failed)
    found = asked(tmp_path, "on")
    assert found.tuned.names == ("omp-bind", "to-mkldnn")
    (note,) = found.tuned.notes
    place = "bert mid Offline batch 32 (measured on another machine)"
    assert f"1.5 times as fast in {place}" in note


def test_on_takes_the_measurements_of_this_machine_first(tmp_path, shipped):
    shipped(GAIN)
    own = replace(
        GAIN, machine=tuning.this_machine(), switches=("huge-pages",), ratio=1.01, low=1.005
    )
    (tmp_path / tuning.GAINS).write_text(json.dumps([asdict(own)]))
    assert asked(tmp_path, "on").tuned.names == ("huge-pages",)
    useless = replace(own, ratio=0.9)
    (tmp_path / tuning.GAINS).write_text(json.dumps([asdict(useless)]))
    nothing = asked(tmp_path, "on")
    assert nothing.tuned.on and nothing.tuned.names == ()
    assert "no switch was shown to make native-torch-eager faster" in nothing.tuned.notes[0]
    assert "tuned=nothing" in nothing.label


@pytest.mark.parametrize(
    "changes",
    [
        {"sut": "native-torch-script"},
        {"precision": "bfloat16"},
        {"model": "mistral"},
        {"python": sys.executable},
    ],
    ids=str,
)
def test_nothing_that_was_not_measured_is_applied(tmp_path, shipped, changes):
    shipped(GAIN)
    found = asked(tmp_path, "on", **changes)
    assert found.tuned.on and not found.tuned.names
    assert "./run.sh tune measures them" in found.tuned.notes[0]


@pytest.mark.parametrize(
    "other",
    [
        {"task": "generate"},
        {"versions": {"torch": "1.0"}},
        {"versions": {}},
        {"switches": ("a-former-switch",)},
        {"switches": ("freezing",)},
        {"architecture": "bert", "switches": ("omp-bind", "channels-last")},
    ],
    ids=str,
)
def test_a_gain_of_another_task_or_release_is_not_applied(tmp_path, shipped, other):
    shipped(replace(GAIN, **other))
    found = asked(tmp_path, "on")
    assert found.tuned.on and not found.tuned.names
    shipped(GAIN, replace(GAIN, ratio=9.0, **other))
    assert asked(tmp_path, "on").tuned.names == ("omp-bind",)


def test_a_gain_of_the_same_work_counts_before_a_larger_one_of_other_work(tmp_path, shipped):
    other = replace(
        GAIN, size="tiny", batch_size=8, switches=("huge-pages",), ratio=3.0, machine="a third"
    )
    shipped(GAIN, other)
    same = asked(tmp_path, "on", size="mid", batch_size=32)
    assert same.tuned.names == ("omp-bind",)
    assert "measured on another machine" in same.tuned.notes[0]
    far = asked(tmp_path, "on", size="mid", batch_size=4)
    assert far.tuned.names == ("huge-pages",)
    assert "bert tiny Offline batch 8 (measured on a third)" in far.tuned.notes[0]


def test_a_gain_of_another_scenario_counts_only_if_there_is_none_of_the_same(tmp_path, shipped):
    latency = replace(GAIN, scenario="SingleStream", switches=("huge-pages",), ratio=3.0, low=2.9)
    shipped(GAIN, latency)
    assert asked(tmp_path, "on").tuned.names == ("omp-bind",)
    shipped(latency)
    assert asked(tmp_path, "on").tuned.names == ("huge-pages",)


def test_a_switch_changes_the_batch_size_and_the_cell_keeps_the_requested_one(tmp_path):
    tuned = asked(tmp_path, "batch-x4", batch_size=8)
    assert tuned.batch_size == 32
    cell = tuned.cell()
    assert (cell.batch_size, cell.requested_batch) == (32, 8)
    assert cell.of_work.batch_size == 8
    untuned = replace(cell.of_work, tuned=False, switches=())
    assert untuned.digest == asked(tmp_path, "off", batch_size=8).cell().digest


def test_a_gain_of_a_batch_is_applied_only_to_the_same_work_and_batch(tmp_path, shipped):
    shipped(replace(GAIN, switches=("batch-x2",)))
    same = asked(tmp_path, "on", size="mid", batch_size=32)
    assert same.tuned.names == ("batch-x2",) and same.batch_size == 64
    assert asked(tmp_path, "on", size="mid", batch_size=16).tuned.names == ()
    assert asked(tmp_path, "on", size="tiny", batch_size=32).tuned.names == ()
    assert asked(tmp_path, "on", size="mid", scenario="SingleStream").tuned.names == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"tuned": "freezing"},
            "is not for native-torch-eager with bert on cpu in Offline; there is",
        ),
        ({"tuned": "channels-last"}, "is not for native-torch-eager with bert on cpu"),
        (
            {"tuned": "freezing+gemm-template", "sut": "native-torch-compile"},
            "two of these exclude each other: take one",
        ),
        ({"tuned": "batch-half", "batch_size": 1}, "a batch of 1 has no smaller one"),
        ({"tuned": "batch-x2+batch-x4"}, "two of these exclude each other: take one"),
        ({"tuned": "batch-x2", "scenario": "SingleStream"}, "on cpu in SingleStream; there is"),
        ({"tuned": "on", "scenario": "Fit"}, "there are no switches for Fit: leave it out"),
    ],
    ids=str,
)
def test_what_a_cell_cannot_have_is_refused(tmp_path, shipped, changes, message):
    with pytest.raises(UsageError, match=message):
        asked(tmp_path, **changes)


def test_a_variable_that_is_set_already_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_PROC_BIND", "false")
    with pytest.raises(UsageError, match="sets OMP_PROC_BIND, which is set in the environment"):
        asked(tmp_path, "omp-bind")


def test_a_file_of_gains_that_cannot_be_read_is_named(tmp_path, shipped):
    (tmp_path / tuning.GAINS).write_text('[{"sut": 3}]')
    with pytest.raises(UsageError, match="measure again with ./run.sh tune"):
        asked(tmp_path, "on")


def test_the_flag_of_a_single_run_takes_no_value_of_a_sweep():
    words = ["--sut", "mock", "--scenario", "Offline", "--model", "bert", "--tuned"]
    with pytest.raises(UsageError, match="gives several cells: use it with ./run.sh sweep"):
        options.parse([*words, "each"])
    with pytest.raises(UsageError, match="unknown"):
        options.parse([*words, "turbo"])
    assert options.parse([*words, "omp-bind+huge-pages"]).tuned == "huge-pages+omp-bind"
