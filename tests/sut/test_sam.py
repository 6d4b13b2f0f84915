"""Segment Anything: a SUT that is intact passes its accuracy test, a broken one fails it; every
tensor has one place in each library.
"""

from dataclasses import replace

import pytest

from benchmarks.disagreement import MeasuredSize
from harness.inputs import models
from sut.checkpoint import sam as weight_map
from tests.conftest import CACHE
from tests.support.long import long_unless
from tests.sut import sam_cases
from tests.sut.measured import Broken

SAM = models.load("sam")
TINY = replace(SAM.sizes["tiny"], inputs={**SAM.sizes["tiny"].inputs, "quick_samples": 8})
KERAS = ("keras3-jax", "keras3-torch")
WRONG_INPUTS = ("images permuted", "points ignored", "labels ignored")
CASES = {
    "native-torch-eager": [
        *sam_cases.INPUTS,
        *(case for case in sam_cases.MODELS if case != sam_cases.KERAS),
    ],
    **dict.fromkeys(KERAS, [*WRONG_INPUTS, sam_cases.KERAS]),
}

QUICK = ("native-torch-eager", "keras3-jax")
"""Tests of other SUTs are long."""
SUTS_TESTED = long_unless(CASES, QUICK.__contains__)


@pytest.fixture(scope="session")
def broken(interpreter, tmp_path_factory):
    cell = MeasuredSize(SAM, TINY, "cpu", tmp_path_factory.mktemp("sam"), CACHE)
    cases = {sut: ["intact", *of_sut] for sut, of_sut in CASES.items()}
    return Broken(interpreter, cell, "tests.sut.sam_cases", cases)


@pytest.mark.parametrize("sut", SUTS_TESTED)
def test_an_intact_sut_agrees_to_rounding(broken, sut):
    found = broken.score(sut, "intact")
    assert found.passed
    assert max(found.detail["logits_error"], found.detail["score_error"]) < 2e-5
    assert found.detail["mask_smallest_iou"] > 0.99


@pytest.mark.parametrize(
    ("sut", "case"),
    long_unless(
        [(sut, case) for sut, cases in CASES.items() for case in cases], lambda row: row[0] in QUICK
    ),
)
def test_a_broken_sut_fails(broken, sut, case):
    found = broken.score(sut, case)
    assert not found.passed
    assert found.value > 10


@pytest.mark.parametrize(
    "case",
    ["images permuted", "points ignored", "labels ignored", "a patch zeroed", "a layer zeroed"],
)
@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_a_large_mistake_fails_in_low_precision_too(broken, case, precision):
    assert not broken.score("native-torch-eager", case, precision).passed


def test_the_table_of_weights_is_metas_own_state_dict(broken):
    assert broken.seen("native-torch-eager")["shapes"] == {
        t.name: list(t.shape) for t in TINY.tensors
    }


@pytest.mark.parametrize("sut", long_unless(KERAS, QUICK.__contains__))
def test_every_tensor_of_the_checkpoint_is_one_variable_of_keras(broken, sut):
    assert sorted(broken.seen(sut)["names"]) == sorted(t.name for t in TINY.tensors)


@pytest.mark.parametrize("size", SAM.sizes)
def test_the_map_of_names_uses_every_tensor_once(size):
    names = [t.name for t in SAM.sizes[size].tensors]
    table = weight_map.keras_hub(SAM.sizes[size].config["num_hidden_layers"])
    hit = [
        name
        for name in names
        for row in table
        if name == row or (row.endswith(".*") and name.rpartition(".")[0] == row[:-2])
    ]
    assert sorted(hit) == sorted(names)
    assert len(set(table.values())) == len(table)


def test_the_whole_model_is_one_graph_whatever_the_labels_are(broken):
    found = broken.seen("native-torch-eager")
    assert (found["graphs"], found["breaks"]) == (1, 0)
    same, other = found["same"]
    assert same < 1e-4 < other
