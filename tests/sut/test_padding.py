"""Where an answer ends, and what padding costs."""

import numpy as np
import pytest

from sut import padding
from sut.registry import SUTS
from tests.support.files import read_json
from tests.support.frameworks import run_module, tiny_workload
from tests.support.long import LONG

TOKENS = np.array([[5, 2, 7, 2], [5, 6, 7, 8], [2, 2, 2, 2], [5, 6, 3, 1]], np.int32)


def test_without_end_tokens_every_row_has_what_it_asked_for():
    assert padding.produced(TOKENS, np.array([4, 3, 2, 1]), ()).tolist() == [4, 3, 2, 1]


def test_an_answer_ends_with_its_first_end_token_or_its_last_token():
    assert padding.produced(TOKENS, np.array([4, 4, 4, 4]), [2]).tolist() == [2, 4, 1, 4]
    assert padding.produced(TOKENS, np.array([1, 3, 4, 4]), [2, 3]).tolist() == [1, 3, 1, 3]
    # A library that stopped early.
    assert padding.produced(TOKENS[2:3, :1], np.array([4]), [2]).tolist() == [1]


def test_what_is_compiled_gets_buckets_and_what_runs_eagerly_the_lengths_themselves():
    batch = {"prompt_length": np.array([3, 17]), "max_new_tokens": np.array([9, 2])}
    uneven = {"prompt_buckets": [16, 32], "new_token_buckets": [8, 16]}
    assert (padding.shape(batch, uneven), padding.shape(batch, uneven, eager=True)) == (
        (32, 16),
        (17, 9),
    )
    alike = {"prompt_buckets": [30], "new_token_buckets": [45]}
    assert padding.shape(batch, alike, eager=True) == (30, 9)


@pytest.mark.parametrize("sut", ["keras3-jax", pytest.param("keras2-tensorflow-graph", marks=LONG)])
def test_keras_makes_no_steps_for_the_padding_of_prompts(interpreter, tmp_path, sut):
    python, workload = interpreter(SUTS[sut].environment), tiny_workload(sut, "mistral", tmp_path)
    buckets = {
        "padded": {"prompt_buckets": [16], "new_token_buckets": [8, 45]},
        "exact": {"prompt_buckets": [9], "new_token_buckets": [8]},
    }
    cases = {
        k: {"sut": sut, "workload": {**workload, "config": {**workload["config"], **each}}}
        for k, each in buckets.items()
    }
    run_module(python, "tests.sut.keras_steps", sut, tmp_path / "spec.json", cases)
    told = read_json(tmp_path / "steps.json")
    assert told["padded"] == told["exact"]
    # From the end of the shortest prompt to that of the longest one's answer.
    assert told["exact"]["steps"] == 9 + 8 - 3
