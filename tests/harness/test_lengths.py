"""How many tokens prompts and answers of a model that generates have: --prompt-tokens and
--new-tokens.
"""

from pathlib import Path

import numpy as np
import pytest

from formats.result import Status
from harness.errors import UsageError
from tests.support.cells import cells_of, measure, request
from tests.support.files import read_json


def asked(tmp_path, model="mistral", **flags):
    return request(tmp_path, model=model, scenario="Offline", size="tiny", **flags)


def test_lengths_that_are_not_the_sizes_own_make_another_cell(tmp_path):
    usual, same, longer = (
        asked(tmp_path, **f)
        for f in ({}, {"prompt_tokens": 5, "new_tokens": 45}, {"prompt_tokens": 300})
    )
    assert usual.cell() == same.cell()
    assert (longer.cell().prompt_tokens, longer.cell().new_tokens) == (300, 45)
    assert longer.cell().digest != usual.cell().digest
    assert longer.label == "mock mistral tiny Offline float32 batch 4 300 + 45 tokens"


def test_the_inputs_have_these_lengths_and_the_result_says_so(tmp_path):
    found = measure(asked(tmp_path, prompt_tokens=7, new_tokens=3))
    assert (found.status, found.cell.prompt_tokens, found.cell.new_tokens) == (Status.OK, 7, 3)
    assert found.metrics["tokens_per_second"] == pytest.approx(
        3 * found.metrics["samples_per_second"]
    )
    record = read_json(Path(found.directory) / "record.json")
    assert record["inputs"]["input_ids"]["shape"][-1] == 7
    with np.load(Path(found.directory) / "reference.npz") as reference:
        assert reference["tokens"].shape[1] == 3


def test_one_new_token_is_the_first_token(tmp_path):
    found = measure(asked(tmp_path, new_tokens=1))
    assert found.status is Status.OK, found.reason
    assert found.metrics["tokens_per_second"] == pytest.approx(found.metrics["samples_per_second"])


def test_answers_to_a_users_prompts_have_this_length_where_a_prompt_asks_for_no_other(tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "one"}\n{"prompt": "another", "max_new_tokens": 2}\n')
    found = measure(asked(tmp_path / "runs", dataset=file, new_tokens=4))
    assert (found.status, found.cell.new_tokens) == (Status.OK, None)
    assert found.cell.dataset != "synthetic"
    assert found.metrics["tokens_per_second"] == pytest.approx(
        3 * found.metrics["samples_per_second"], rel=0.01
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            {"model": "bert", "new_tokens": 3},
            "--new-tokens: is for models that generate tokens, and bert does not: leave it out",
        ),
        (
            {"scenario": "Fit", "prompt_tokens": 3},
            (
                "--prompt-tokens: is for models that generate tokens, and mistral does not in Fit:"
                " leave it"
            ),
        ),
        ({"prompt_tokens": 0}, "--prompt-tokens 0: a prompt and an answer have at least 1 token"),
        ({"new_tokens": -1}, "--new-tokens -1: a prompt and an answer have at least 1 token"),
        (
            {"prompt_tokens": 32700, "new_tokens": 100},
            (
                "32700 --new-tokens 100: 32700 + 100 tokens are more than the 32768 positions of"
                " mistral"
            ),
        ),
        (
            {"prompt_tokens": 3, "dataset": Path(__file__)},
            "--prompt-tokens 3: --dataset decides the lengths of the prompts: leave it out",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path, flags, words):
    with pytest.raises(UsageError) as caught:
        request(tmp_path, **{"model": "mistral", "scenario": "Offline", "size": "tiny", **flags})
    assert words in str(caught.value)


def test_a_sweep_takes_lists_of_them():
    made = cells_of(model="mistral", prompt_tokens="5,300", new_tokens="1,45")
    assert [one.request and one.request.tokens for one in made] == [
        (5, 1),
        None,
        (300, 1),
        (300, 45),
    ]
    assert len({one.comparison for one in made}) == 4


@pytest.mark.parametrize(
    ("sut", "new", "noted"),
    [("keras3-jax", 1, True), ("keras3-jax", 2, False), ("native-jax", 1, False)],
)
def test_a_result_notes_the_two_passes(tmp_path, sut, new, noted):
    reasons = request(tmp_path, sut=sut, model="mistral", new_tokens=new).reasons
    assert any("two passes to the first token" in reason for reason in reasons) is noted
