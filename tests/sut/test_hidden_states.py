"""Models without a head: a SUT that is intact passes its accuracy test, a broken one fails it, and
a trace shows that it ran.
"""

from dataclasses import replace

import pytest

from benchmarks.disagreement import MeasuredSize
from compliance import rules
from compliance.checks.run.evidence import findings
from formats.evidence import Evidence
from harness.inputs import limits, models, user_weights
from sut.registry import REFERENCE, SUTS
from tests.conftest import CACHE
from tests.support.files import read_json
from tests.support.frameworks import run_module
from tests.sut import hidden_states_cases
from tests.sut.measured import UserSize

MODELS = models.in_group("hf-2019")
TESTED = {
    "native-torch-eager": MODELS,
    "keras3-jax": ["gpt2", "roberta"],
    "hf-tensorflow": ["distilbert"],
}
USERS = dict.fromkeys(TESTED, ["distilbert", "gpt2", "roberta"])
"""SUT → models whose folders, as Transformers saves them, it reads in the tests."""
PAIRS = [(sut, model) for sut, names in TESTED.items() for model in names]
LARGE = [*hidden_states_cases.INPUTS, "a layer zeroed"]


@pytest.fixture(scope="session")
def cells(tmp_path_factory):
    """Model → its inputs and its checkpoint at size tiny, of eight samples."""
    folder, made = tmp_path_factory.mktemp("hidden"), {}
    for name in MODELS:
        model = models.load(name)
        tiny = model.sizes["tiny"]
        tiny = replace(tiny, inputs={**tiny.inputs, "quick_samples": 8})
        made[name] = MeasuredSize(model, tiny, "cpu", folder, CACHE)
    return made


@pytest.fixture(scope="session")
def users(saved, tmp_path_factory):
    """Model → a folder that Transformers saved, of half of them with a head."""
    folder = tmp_path_factory.mktemp("users")
    (folder / "prompts.txt").write_text("a prompt\n\nanother one, which is longer\n\na third")
    made = {}
    for name in USERS["native-torch-eager"]:
        model = models.load(name)
        found = user_weights.look(saved / name, model)
        made[name] = UserSize(model, found.size, found, folder, folder / "prompts.txt")
    return made


@pytest.fixture(scope="session")
def answered(interpreter, cells, users):
    """SUT → the folder with the answers of every model and case: one task for each SUT."""
    folder, done = next(iter(cells.values())).folder, set()

    def answer(sut):
        if sut not in done:
            if sut != "native-torch-eager":
                answer("native-torch-eager")  # which makes the references too
            # Or the test is skipped, and the next one asks again.
            python = interpreter(SUTS[sut].environment)
            done.add(sut)
            told = {
                "cells": [cells[name].specification(sut, "float32") for name in TESTED[sut]],
                "references": [
                    cell.specification(REFERENCE, "float32")
                    for cell in (*cells.values(), *users.values())
                    if sut == "native-torch-eager"
                ],
                "whole": [users[name].specification(sut, "float32") for name in USERS[sut]],
                "folder": str(folder),
            }
            run_module(python, "tests.sut.hidden_states_cases", sut, folder / "cases.json", told)
        return folder

    return answer


@pytest.fixture(scope="session")
def scored(answered, cells):
    def score(sut, model, case, precision="float32"):
        cell = cells[model]
        device = "cuda" if precision == "tf32" else "cpu"
        tolerance = limits.limits(cell.model, cell.size, precision, device)
        return cell.score(answered(sut) / f"{sut} {model} {case}.npz", tolerance)

    return score


@pytest.fixture(scope="session")
def seen(answered):
    return lambda sut: read_json(answered(sut) / f"{sut}.json")


def complaints(sut, evidence):
    execution = SUTS[sut].execution
    both = (Evidence(**evidence[when]) for when in ("before", "after"))
    return findings(rules.load().evidence[execution], *both, execution)


@pytest.mark.parametrize(("sut", "model"), PAIRS)
def test_an_intact_sut_agrees_to_rounding(scored, sut, model):
    found = scored(sut, model, "intact")
    assert found.passed
    assert found.detail["hidden_error"] < 3e-5


@pytest.mark.parametrize(
    ("sut", "model"), [(sut, model) for sut, names in USERS.items() for model in names]
)
def test_a_users_folder_and_padded_prompts_agree_to_rounding_on_every_sut(
    answered, users, sut, model
):
    answered(sut)
    cell = users[model]
    found = cell.score(cell.file(sut), limits.limits(cell.model, cell.size, "float32", "cpu"))
    assert found.passed
    assert found.detail["hidden_error"] < 3e-5


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize(("sut", "model"), PAIRS)
def test_a_broken_sut_fails_at_every_precision(scored, sut, model, case):
    for precision in models.load(model).tolerance:
        assert not scored(sut, model, case, precision).passed
    assert scored(sut, model, case).value > 100


@pytest.mark.parametrize(("sut", "model"), PAIRS)
def test_two_swapped_rows_of_one_tensor_fail(scored, sut, model):
    assert scored(sut, model, "two rows of one tensor swapped").value > 100


@pytest.mark.parametrize(
    "model", [name for name in MODELS if "bfloat16" in models.load(name).tolerance]
)
def test_bfloat16_passes_its_own_tolerance_and_not_that_of_float32(scored, model):
    assert scored("native-torch-eager", model, "bfloat16", "bfloat16").passed
    assert not scored("native-torch-eager", model, "bfloat16").passed


@pytest.mark.parametrize("model", MODELS)
def test_the_table_of_weights_is_the_librarys_own(seen, model):
    shapes = seen("native-torch-eager")[model]["shapes"]
    prefix = f"{model}."  # of those whose file names tensors as a model with a head has them
    tensors = models.load(model).sizes["tiny"].tensors
    assert {t.name.removeprefix(prefix): list(t.shape) for t in tensors} == shapes


@pytest.mark.parametrize(("sut", "model"), PAIRS)
def test_what_ran_is_what_the_sut_is_named(seen, sut, model):
    evidence = seen(sut)[model]
    assert complaints(sut, evidence) == []
    assert {evidence[when]["precision"] for when in ("before", "after")} == {"float32"}
