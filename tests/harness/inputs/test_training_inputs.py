"""What a model is trained on: labels, the batches that are held out, and a user's own."""

import numpy as np
import pytest

from harness.errors import UsageError
from harness.inputs import dataset, models
from harness.inputs.architectures import UserFile
from tests.support.files import write_rows

BERT, MISTRAL = models.load("bert"), models.load("mistral")


def prepare(tmp_path, model, rows=None, batch_size=2, samples=10, seq_len=None, name="rows.jsonl"):
    """(the inputs, arrays to train on, arrays that are held out)"""
    path = given = None
    size, cache = model.sizes["tiny"], tmp_path / "cache"
    if rows is not None:
        path = write_rows(tmp_path / name, rows)
        file = UserFile(path=path, model=model, size=size, seq_len=seq_len)
        given = dataset.read(file, trains=True)
    how = {"batch_size": batch_size, "trains": True, "given": given}
    found = dataset.prepare(model, size, samples, path, cache, **how)
    with np.load(found.path) as inputs, np.load(found.fresh) as held_out:
        return found, dict(inputs), dict(held_out)


@pytest.mark.parametrize("model", [BERT, MISTRAL], ids=["bert", "mistral"])
def test_synthetic_batches_that_are_held_out_are_others(tmp_path, model):
    found, inputs, held_out = prepare(tmp_path, model)
    assert (found.count, len(inputs["label"]), len(held_out["label"])) == (10, 10, 8)
    assert found.description.seq_len == 32
    assert not (held_out["input_ids"][:, None] == inputs["input_ids"]).all(2).any()


def test_the_label_of_a_token_is_the_one_behind_it(tmp_path):
    _, inputs, _ = prepare(tmp_path, MISTRAL)
    np.testing.assert_array_equal(inputs["label"][:, :-1], inputs["input_ids"][:, 1:])
    assert (inputs["label"][:, -1] == -100).all()


def test_padding_is_no_label(tmp_path):
    rows = [{"prompt": "abc"}, {"prompt": "abcdefgh"}]
    _, inputs, held_out = prepare(tmp_path, MISTRAL, rows * 2)
    assert inputs["input_ids"].shape == (10, 16)  # with the mark at the beginning: 4 and 9 tokens
    assert (inputs["label"] != -100).sum(1).tolist() == [3, 8] * 5
    assert (held_out["label"] != -100).sum(1).tolist() == [3, 8]


def test_a_users_labels_come_in_the_files_order_and_the_last_batch_is_held_out(tmp_path):
    rows = [{"prompt": f"prompt {n}", "label": n % 2} for n in range(7)]
    found, inputs, held_out = prepare(tmp_path, BERT, rows)
    # Four prompts, two and a half times.
    assert inputs["label"].tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    np.testing.assert_array_equal(inputs["input_ids"][:4], inputs["input_ids"][4:8])
    assert held_out["label"].tolist() == [0, 1]
    assert (
        found.notes[-1]
        == "rows.jsonl: trained on its first 4 inputs 2.5 times, 2 after them held out, 1 at its"
        " end not used, because they fill no batch"
    )
    assert not any("not used: label" in note for note in found.notes)


def test_of_many_batches_four_are_held_out(tmp_path):
    _, _, held_out = prepare(tmp_path, BERT, [{"prompt": "a", "label": 1}] * 100)
    assert len(held_out["label"]) == 8


def test_other_batches_held_out_make_other_inputs(tmp_path):
    rows = [{"prompt": str(n), "label": 1} for n in range(4)]
    one, two = (
        prepare(tmp_path, BERT, [*rows, {"prompt": last, "label": 0}, rows[0]])[0] for last in "ab"
    )
    assert one.digest != two.digest


@pytest.mark.parametrize(
    ("model", "rows", "words"),
    [
        (
            BERT,
            [{"prompt": "a"}],
            (
                r"rows\.jsonl:1: bert is trained on JSON Lines .* a whole number from 0 to 1; found"
                r" none"
            ),
        ),
        (
            BERT,
            [{"prompt": "a", "label": 1}, {"prompt": "a", "label": 2}],
            r"rows\.jsonl:2: .*; found 2",
        ),
        (BERT, [{"prompt": "a", "label": True}], "found True"),
        (BERT, [{"prompt": "a", "label": "1"}], "found '1'"),
        (
            BERT,
            [{"prompt": "a", "label": 1}] * 3,
            "3 inputs make 1 batches of 2. A training needs at least two",
        ),
        (MISTRAL, [{"prompt": "a"}] * 3, "3 inputs make 1 batches of 2"),
    ],
)
def test_what_cannot_be_trained_on_is_named(tmp_path, model, rows, words):
    with pytest.raises(UsageError, match=words):
        prepare(tmp_path, model, rows)
