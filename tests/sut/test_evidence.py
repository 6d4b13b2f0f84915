"""Evidence shows what ran: the same before and after an honest test, other when something was compiled in between."""

from __future__ import annotations

import json

import pytest

PAIRS = [(sut, model) for model in ("bert", "mistral") for sut in ("native-torch-eager", "keras3-jax")]
BEFORE, AFTER, NEW_SHAPE, BFLOAT16, COMPILED = range(5)


@pytest.mark.parametrize(("sut", "model"), PAIRS)
def test_evidence_of_an_honest_run_is_the_same_before_and_after(probed, sut, model):
    evidence = probed(sut, model).evidence
    assert evidence[BEFORE] == evidence[AFTER]


@pytest.mark.parametrize(("sut", "model"), PAIRS)
def test_the_precision_is_read_off_a_product(probed, sut, model):
    evidence = probed(sut, model).evidence
    assert [evidence[i]["precision"] for i in (BEFORE, BFLOAT16)] == ["float32", "bfloat16"]
    assert evidence[BFLOAT16]["detail"]["parameter_dtypes"] == ["bfloat16"]


@pytest.mark.parametrize(("model", "program"), [("bert", "predict_step"), ("mistral", "compiled_generate_function")])
def test_jax_compiles_the_measured_call_once_and_again_for_a_new_shape(probed, model, program):
    evidence = probed("keras3-jax", model).evidence
    assert [evidence[i]["graphs"] for i in (BEFORE, NEW_SHAPE)] == [1, 2]
    assert evidence[BEFORE]["detail"]["programs"] == {f"jit({program})": 1}
    assert evidence[BEFORE]["detail"]["jit_compile"]


@pytest.mark.parametrize("model", ["bert", "mistral"])
def test_eager_has_no_graph_and_dispatches_its_operators_one_by_one(probed, model):
    evidence = probed("native-torch-eager", model).evidence[NEW_SHAPE]
    assert evidence["graphs"] == 0
    assert evidence["detail"]["operators"] > 100
    assert evidence["detail"]["compiled_regions"] == 0


@pytest.mark.parametrize("model", ["bert", "mistral"])
def test_an_eager_sut_that_compiles_is_caught(probed, model):
    evidence = probed("native-torch-eager", model).evidence[COMPILED]
    assert evidence["graphs"] > 0
    assert evidence["detail"]["compiled_regions"] > 0


@pytest.mark.parametrize(("case", "words"), [("tf32", "--precision tf32"), ("cuda", "--device cuda"), ("script", "execution script")])
@pytest.mark.parametrize(("sut", "model"), PAIRS)
def test_what_cannot_run_is_refused_with_a_sentence(probed, sut, model, case, words):
    told = json.loads((probed(sut, model).out / "refused.json").read_text())[case]
    assert told.startswith(words)
    assert "\n" not in told
