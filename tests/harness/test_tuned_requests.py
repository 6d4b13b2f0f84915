"""`--tuned` → the switches of a cell, its name and what its worker gets."""

from dataclasses import replace

import pytest

from formats.cell import cell_words
from harness.errors import UsageError
from harness.request import options, tuning
from tests.support.cells import request


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


def test_a_switch_changes_the_batch_size_and_the_cell_keeps_the_requested_one(tmp_path):
    tuned = asked(tmp_path, "batch-x4", batch_size=8)
    assert tuned.batch_size == 32
    cell = tuned.cell()
    assert (cell.batch_size, cell.requested_batch) == (32, 8)
    assert cell.of_work.batch_size == 8
    untuned = replace(cell.of_work, tuned=False, switches=())
    assert untuned.digest == asked(tmp_path, "off", batch_size=8).cell().digest


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
        ({"tuned": "omp-bind", "scenario": "Fit"}, "there are no switches for Fit: leave it out"),
        (
            {"tuned": "length-buckets", "standard": "synthetic"},
            "in Offline with inputs of one length; there is",
        ),
    ],
    ids=str,
)
def test_what_a_cell_cannot_have_is_refused(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        asked(tmp_path, **changes)


def test_a_variable_that_is_set_already_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_PROC_BIND", "false")
    with pytest.raises(UsageError, match="sets OMP_PROC_BIND, which is set in the environment"):
        asked(tmp_path, "omp-bind")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("each", "gives several cells: use it with ./run.sh sweep"),
        ("on", "gains of one machine say nothing of another: measure each switch here"),
        ("both", "gains of one machine say nothing of another: measure each switch here"),
        ("turbo", "unknown"),
    ],
)
def test_the_flag_of_a_single_run_takes_names_of_switches(value, message):
    words = ["--sut", "mock", "--scenario", "Offline", "--model", "bert", "--tuned"]
    with pytest.raises(UsageError, match=message):
        options.parse([*words, value])
    assert options.parse([*words, "omp-bind+huge-pages"]).tuned == "huge-pages+omp-bind"
