"""Each SUT intact passes its accuracy test, and broken on purpose fails it, at the tolerance of
every precision.
"""

import numpy as np
import pytest

from sut import padding
from tests.support.files import read_json
from tests.support.long import LONG
from tests.sut.conftest import COMPILED, EAGER_OR_XLA, IN_BFLOAT16, PAIRS, UNEVEN

BROKEN = ["permuted rows", "reversed tokens", "zeroed position", "zeroed layer"]


@pytest.mark.parametrize(("sut", "model"), PAIRS)
def test_an_intact_sut_agrees_to_rounding(probed, sut, model):
    found = probed(sut, model).score("intact")
    assert found.passed
    assert found.value < 2e-5
    assert found.detail.get("equal_fraction", 1.0) == 1.0


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize(("sut", "model"), PAIRS)
def test_a_broken_sut_fails(probed, sut, model, case, precision):
    assert not probed(sut, model).score(case, precision).passed


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize(("sut", "model"), UNEVEN)
def test_a_sut_that_reads_padding_as_text_fails(probed, sut, model, precision):
    assert not probed(sut, model).score("padding ignored", precision).passed


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize(("sut", "model"), EAGER_OR_XLA)
def test_a_dropped_cache_fails_by_its_tokens_alone(probed, sut, model, precision):
    found = probed(sut, model).score("dropped cache", precision)
    assert not found.passed
    assert found.value < 2e-5  # teacher-forced logits use no cache: they cannot see it
    assert found.detail["logit_gap"] > found.detail["logit_gap_limit"]


@LONG
@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_a_dropped_cache_fails_by_both_where_the_measured_graphs_are_forced(probed, precision):
    found = probed(COMPILED, "mistral").score("dropped cache", precision)
    assert not found.passed
    assert found.value > found.threshold
    assert found.detail["logit_gap"] > found.detail["logit_gap_limit"]


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize(("sut", "model"), PAIRS)
def test_a_breakage_is_far_beyond_the_tolerance(probed, sut, model, case):
    found = probed(sut, model).score(case)
    worst = max(
        found.value / found.threshold,
        found.detail.get("logit_gap", 0) / found.detail.get("logit_gap_limit", 1),
    )
    assert worst > 100


@pytest.mark.parametrize(("sut", "model"), IN_BFLOAT16)
def test_bfloat16_passes_its_own_tolerance_and_not_that_of_float32(probed, sut, model):
    assert probed(sut, model).score("bfloat16", "bfloat16").passed
    assert not probed(sut, model).score("bfloat16", "float32").passed


@pytest.mark.parametrize(("sut", "model"), EAGER_OR_XLA)
def test_prompts_of_uneven_length_in_one_batch_are_answered_as_alone(probed, sut, model):
    answers = probed(sut, model).answers("uneven")
    np.testing.assert_array_equal(answers["together"], answers["alone"])
    np.testing.assert_array_equal(
        answers["together"], probed("native-torch-eager", model).answers("uneven")["alone"]
    )


@LONG
@pytest.mark.parametrize(
    ("sut", "fills_with_an_end_token"),
    [("native-jax", False), ("hf-tensorflow", True), ("keras2-tensorflow", False)],
)
def test_each_answer_ends_at_its_end_token_and_the_loop_stops_when_all_have_ended(
    probed, sut, fills_with_an_end_token
):
    """Each row's eleventh token is an end token."""
    found = probed(sut, "mistral")
    answers, tokens = found.answers("ended"), found.reference["tokens"]
    counts = padding.produced(tokens, found.inputs["max_new_tokens"], answers["ends"].tolist())
    np.testing.assert_array_equal(answers["n_tokens"], counts)
    for row, count in enumerate(counts):
        np.testing.assert_array_equal(answers["tokens"][row, :count], tokens[row, :count])
    assert (
        answers["tokens"][:, 11:] == (answers["ends"][0] if fills_with_an_end_token else 0)
    ).all()


@LONG
@pytest.mark.parametrize("sut", ["hf-tensorflow"])
def test_what_is_unsupported_on_hf_tensorflow_was_tried(probed, sut):
    told = read_json(probed(sut, "mistral").out / "lacks.json")
    for precision in ("bfloat16", "float16"):
        words = told.pop(f"mistral/{precision}")
        assert f"type {precision} that does not match type float32" in words
    names = ("gemma", "gemma3", "llama", "mistral", "qwen3")
    assert [key for key in names if told.pop(key)] == ["mistral"]
    refused, itself = told.pop("one token")
    assert refused.startswith("Transformers' generation in TensorFlow makes two tokens at least")
    assert "Fill dimensions must be >= 0" in itself
    assert sorted(told) == ["head_dim", "rope_scaling", "sliding_window", "tie_word_embeddings"]
    assert all(
        words.startswith("Transformers' Mistral for TensorFlow lacks ") for words in told.values()
    ), told


@pytest.mark.parametrize("model", ["mistral", "gemma", "llama", "gpt2", "qwen3", "gemma3"])
def test_generation_does_not_repeat_itself(probed, model):
    tokens = probed("native-torch-eager", model).reference["tokens"]
    assert min(len(set(row)) for row in tokens.tolist()) > 20
