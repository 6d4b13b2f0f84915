"""Flags and recipes → cells: what is multiplied, left out, refused and named."""

import pytest

from harness.comparison import compare
from harness.errors import UsageError
from harness.inputs import models
from harness.sweep import cells, journal, recipe
from sut import tuning
from sut.registry import SUTS
from tests.support.cells import WHERE, cells_of


def labels(series):
    return [each.label for each in series]


def test_lists_are_multiplied_and_rivals_stand_beside_each_other():
    series = cells_of(sut="mock,native-torch", batch_size="1,8")
    assert labels(series) == [
        "mock bert tiny Offline float32 batch 1",
        "native-torch-compile bert tiny Offline float32 batch 1",
        "mock bert tiny Offline float32 batch 8",
        "native-torch-compile bert tiny Offline float32 batch 8",
    ]
    assert series[0].comparison == series[1].comparison != series[2].comparison


def test_all_is_every_framework_and_neither_the_mock_nor_an_engine():
    suts = [each.request.options.sut for each in cells_of(sut="all")]
    assert suts == [name for name in SUTS if name not in ("mock", "endpoint")]


def test_all_models_are_those_of_no_group_and_a_group_is_named_for_its_own():
    def of(*names):
        return {each.request.model.name for each in cells_of(model=[*names])}

    assert of("all") == set(models.in_group(""))
    assert of("hf-2019") == set(models.in_group("hf-2019"))
    assert of("bert,hf-2019") == {"bert", *models.in_group("hf-2019")}


def test_lengths_are_multiplied_and_one_that_a_model_cannot_take_has_the_reason():
    series = cells_of(model="gpt2,roberta", seq_len="8,1024")
    assert [bool(each.obstacle) for each in series] == [False, False, False, True]
    assert series[3].obstacle == "--seq-len 1024: roberta has positions for 512 tokens, and no more"
    assert series[1].label == "mock gpt2 tiny Offline float32 batch 4 1024 tokens"
    assert series[0].comparison != series[1].comparison


def test_a_second_task_is_a_cell_of_its_own_where_the_model_has_it():
    series = cells_of(model="gpt2,bert", task="predict,generate")
    assert [each.request and each.request.task for each in series] == [
        "predict",
        "generate",
        "predict",
        None,
    ]
    assert [each.label for each in series[:2]] == [
        "mock gpt2 tiny Offline float32 batch 4",
        "mock gpt2 tiny generate Offline float32 batch 4",
    ]
    assert series[3].obstacle == "--task generate: bert has only predict: leave it out"
    assert (series[0].request.benchmark, series[1].request.benchmark) == (
        "gpt2-tiny",
        "gpt2-tiny-generate",
    )


def test_batch_sizes_leave_one_sample_scenarios_alone():
    series = cells_of(scenario="offline,singlestream", batch_size="2,4")
    assert [(s.request.options.scenario, s.request.batch_size) for s in series] == [
        ("Offline", 2),
        ("Offline", 4),
        ("SingleStream", 1),
    ]


def test_the_first_cell_that_can_be_measured_has_a_control_run():
    series = cells_of(precision="bfloat16,float32", control=True)
    assert [(s.control, bool(s.obstacle)) for s in series] == [
        (False, True),
        (False, False),
        (True, False),
    ]
    assert "mock computes in float32" in series[0].obstacle


def test_what_no_cell_can_be_is_refused_as_a_whole():
    with pytest.raises(UsageError, match="--duration nan: more than 0"):
        cells_of(duration="nan")
    with pytest.raises(UsageError, match="did you mean bert"):
        cells_of(model="brt")


def test_the_same_cells_have_one_folder_whatever_the_repeats(tmp_path):
    first, control, other = (
        cells_of(batch_size=b, control=t) for b, t in (("2", False), ("2", True), ("4", False))
    )
    names = {
        journal.folder(tmp_path, "sweep", each, again=False).name
        for each in (first, control, other)
    }
    assert len(names) == 3
    made = journal.folder(tmp_path, "sweep", first, again=False)
    made.mkdir(parents=True)
    assert journal.folder(tmp_path, "sweep", first, again=False) == made
    assert journal.folder(tmp_path, "sweep", first, again=True).name == made.name[:-1] + "2"


@pytest.mark.parametrize("name", recipe.names())
def test_the_recipes_that_come_along_are_valid(name):
    chosen = recipe.read(name)
    for each in cells.make(chosen.grids, WHERE, control=False):
        assert each.request or " computes in " in each.obstacle


def test_the_published_table_is_measured_by_a_recipe():
    series = cells.make(recipe.read("keras3-published").grids, WHERE, control=False)
    rows = {(s.request.model.name, s.request.task, s.request.batch_size) for s in series}
    assert rows == set(compare.published())
    named = [s for s in series if s.request.precision != "tf32"]
    assert len(named) == 6 * len(rows)
    assert all(s.request.size.name == "full" for s in series)


def test_the_published_models_in_float32_are_measured_in_tf32_too():
    series = cells.make(recipe.read("keras3-published").grids, WHERE, control=False)

    def work(precision):
        return [
            (s.request.model.name, s.request.task, s.request.options.sut)
            for s in series
            if s.request.precision == precision
        ]

    assert work("tf32") == work("float32")
    assert {model for model, _, _ in work("bfloat16")} == {"gemma", "mistral"}
    # This is of a CPU.
    assert all(
        "a format of NVIDIA GPUs" in s.obstacle for s in series if s.request.precision == "tf32"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[cells]]\nsuts = 'mock'", "[[cells]] number 1: suts is unknown (did you mean sut?)"),
        ("cell = 1", "cell is unknown (did you mean cells?)"),
        ("[defaults]\nsut = 'mock'", "has no [[cells]]"),
        ("[[cells]]\nsut = true", "sut is a text, a number or a list"),
        ("[[cells]]\nduration = [1, 2]", "duration takes one value"),
        ("[[cells]]\nout = 'there'", "out is unknown"),
        ("[cells]\nsut = 'mock'", "cells is written as [[cells]]"),
        ("[[cells]]\nsut = 'mock'\n[[missing]]\nwhat = 'sam'", "needs `what` and `why`"),
        ("cells = ", "cannot be read as a TOML file"),
    ],
)
def test_a_mistake_in_a_recipe_is_named(tmp_path, text, words):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        recipe.read(str(path))
    assert words in str(caught.value)


def test_flags_are_written_in_a_recipe_as_they_are_typed(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[defaults]\nmodel = "bert"\n[[cells]]\nsut = "mock"\nscenario = "Offline"\nbatch-size ='
        ' [2, 4]\nsut-option = ["latency-ms=2"]'
    )
    series = cells.make(recipe.read(str(path)).grids, WHERE, control=False)
    assert [s.request.batch_size for s in series] == [2, 4]
    assert series[0].request.sut_options == {"latency-ms": 2.0}
    assert (
        series[0].command
        == "./run.sh --sut mock --scenario Offline --model bert --batch-size 2 --sut-option"
        " latency-ms=2"
    )


def test_a_cell_as_it_comes_and_a_tuned_one_are_rivals_and_only_equal_ones_are_compared():
    off, on = cells_of(sut="native-torch", tuned="off,omp-bind+huge-pages")
    assert (off.request.tuned.names, on.request.tuned.names) == ((), ("huge-pages", "omp-bind"))
    assert off.comparison != on.comparison
    assert off.rivals == on.rivals
    other, *_ = cells_of(sut="keras3-jax", tuned="fast-math")
    assert other.comparison == on.comparison


def test_each_is_the_cell_as_it_comes_and_with_each_switch_of_its_sut(monkeypatch):
    for switch in tuning.switches().values():
        for name in switch.variables:
            monkeypatch.delenv(name, raising=False)
    series = cells_of(sut="mock,native-torch-eager", tuned="each")
    assert not any(s.obstacle for s in series)
    tuned = [(s.request.options.sut, s.request.options.tuned) for s in series]
    expected = []
    for sut in ("mock", "native-torch-eager"):
        place = tuning.Place(sut=sut, architecture="bert", device="cpu", scenario="Offline")
        names = [each.name for each in tuning.candidates(place)]
        expected += [(sut, name) for name in ("off", *names)]
    assert tuned == expected
    assert ("mock", "batch-x2") in tuned and ("mock", "huge-pages") not in tuned
    assert ("native-torch-eager", "huge-pages") in tuned


def test_a_tuned_batch_is_a_rival_of_the_requested_one():
    off, twice = cells_of(sut="mock", batch_size="8", tuned="off,batch-x2")
    assert (off.request.batch_size, twice.request.batch_size) == (8, 16)
    assert off.rivals == twice.rivals


def test_no_switch_is_tried_in_another_scenario():
    series = cells_of(sut="mock", scenario="SingleStream", tuned="each")
    assert [s.request.options.tuned for s in series] == ["off"]


def test_each_shows_an_impossible_cell_once():
    (only,) = cells_of(sut="native-torch", tuned="each", precision="tf32")
    assert "a format of NVIDIA GPUs" in only.obstacle
