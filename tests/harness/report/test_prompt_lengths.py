"""Sentences on what the lengths of prompts and answers do to a comparison of Keras SUTs with
others.
"""

import pytest

from harness.report.sections import lengths
from tests.support.cells import request
from tests.support.reports import gathered
from tests.support.synthetic_runs import cell, write

OF_MISTRAL = {
    "model": "mistral",
    "task": "generate",
    "seq_len": None,
    "batch_size": 8,
    "eos": "ignore",
}


def sentences(tmp_path, suts=("keras3-jax", "native-jax"), record=None, **changes):
    for sut in suts:
        write(tmp_path, cell(sut, **OF_MISTRAL | changes), [10.0, 10.1, 9.9], record=record)
    (comparison,) = gathered(tmp_path).comparisons
    return lengths.sentences(comparison)


def test_the_factor_follows_from_the_lengths_and_the_configuration(tmp_path):
    layers, head = 50_331_648, 32_000 * 768  # size mid: 8 layers
    factor = (95 * layers + 45 * head) / (49 * layers + 45 * head)
    (sentence,) = sentences(tmp_path)
    assert sentence.startswith(
        f"5 + 45 tokens: keras3-jax: {factor:.2f} × the multiplications needed"
    )


def test_longer_prompts_bring_it_nearer_to_one(tmp_path):
    (sentence,) = sentences(tmp_path, prompt_tokens=512, new_tokens=128)
    assert "1.18 ×" in sentence


def test_what_is_not_compiled_computes_logits_for_all_columns(tmp_path):
    compiled, eager = sentences(tmp_path, ("keras3-jax", "keras3-torch", "native-jax"))
    assert "keras3-jax: 1.65 ×" in compiled
    assert "keras3-torch: 1.99 ×" in eager and "computes logits" in eager


def test_the_first_token_takes_keras_two_passes(tmp_path):
    first, more = sentences(tmp_path, prompt_tokens=5, new_tokens=1)
    assert "two passes to the first token" in first
    assert more.startswith("5 + 1 tokens")


@pytest.mark.parametrize(
    ("dataset", "record"),
    [("uneven", {}), ("0123456789ab", {"qsl": {"shortest": 3, "longest": 90}})],
)
def test_of_uneven_prompts_it_says_where_keras_starts(tmp_path, dataset, record):
    (sentence,) = sentences(tmp_path, dataset=dataset, record=record)
    assert "start where the shortest prompt of a batch ends" in sentence


@pytest.mark.parametrize(
    ("suts", "changes"),
    [
        (("keras3-jax", "keras3-torch"), {}),
        (("native-jax", "native-torch-eager"), {}),
        (("keras3-jax", "native-jax"), {"model": "bert", "task": "predict", "seq_len": 128}),
        (("keras3-jax", "native-jax"), {"size": "user"}),
    ],
)
def test_there_is_no_sentence_without_a_difference_or_a_number(tmp_path, suts, changes):
    assert sentences(tmp_path, suts, **changes) == []


@pytest.mark.parametrize(
    ("sut", "new", "noted"),
    [("keras3-jax", 1, True), ("keras3-jax", 2, False), ("native-jax", 1, False)],
)
def test_a_result_notes_the_two_passes(tmp_path, sut, new, noted):
    reasons = request(tmp_path, sut=sut, model="mistral", new_tokens=new).reasons
    assert any("two passes to the first token" in reason for reason in reasons) is noted
