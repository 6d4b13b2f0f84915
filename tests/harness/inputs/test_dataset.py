import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.inputs import dataset, models, prompt_files, tokenizer
from harness.inputs.architectures import Description, UserFile, bert

BERT, MISTRAL = models.load("bert"), models.load("mistral")


def prepare(tmp_path, model, path=None, samples=8, size="tiny"):
    found = dataset.prepare(model, model.sizes[size], samples, path, tmp_path / "cache")
    with np.load(found.path) as f, np.load(found.synthetic) as s:
        return found, dict(f), dict(s)


@given(st.text())
def test_the_byte_level_tokenizer_loses_nothing(text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.lists(st.integers(-5, 40_000)))
def test_whatever_a_model_generates_can_be_decoded(ids):
    assert isinstance(tokenizer.decode(ids), str)


def test_text_is_one_prompt_a_paragraph_with_its_line(tmp_path):
    path = tmp_path / "text"
    path.write_text("first line\n  second line\n\n\n \nnext paragraph", encoding="utf-8")
    prompts, notes = prompt_files.read(path)
    assert [(p.text, p.line) for p in prompts] == [
        ("first line\n  second line", 1),
        ("next paragraph", 6),
    ]
    assert notes == ()


@given(
    st.lists(st.text(min_size=1).filter(str.strip), min_size=1),
    st.lists(st.one_of(st.none(), st.integers(1, 50)), min_size=1),
)
def test_json_lines_come_back_as_they_were_written(tmp_path_factory, prompts, counts):
    rows = [
        {"prompt": p} | ({"max_new_tokens": n} if n else {})
        for p, n in zip(prompts, counts, strict=False)
    ]
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert [(p.text, p.max_new_tokens) for p in prompt_files.read(path)[0]] == [
        (r["prompt"], r.get("max_new_tokens")) for r in rows
    ]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("not json", "not JSON"),
        ("", "an empty line"),
        ("[1]", "non-empty string `prompt`"),
        ('{"text": "x"}', "non-empty string `prompt`"),
        ('{"prompt": ""}', "non-empty string `prompt`"),
        ('{"prompt": 3}', "non-empty string `prompt`"),
        ('{"prompt": "x", "max_new_tokens": 0}', "whole number from 1 on"),
        ('{"prompt": "x", "max_new_tokens": "9"}', "whole number from 1 on"),
        ('{"prompt": "x", "max_new_tokens": true}', "whole number from 1 on"),
        ('{"prompt": "a \\ud800 b"}', "half of a surrogate pair"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, bad, words):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "good"}\n' + bad + '\n{"prompt": "good"}\n')
    with pytest.raises(UsageError, match=rf"rows\.jsonl:2: .*{words}"):
        prompt_files.read(path)


def test_an_empty_file_is_no_data_set(tmp_path):
    (tmp_path / "empty").write_text("\n \n")
    with pytest.raises(UsageError, match="no prompt in it"):
        prompt_files.read(tmp_path / "empty")


@pytest.mark.parametrize("name", ["ROWS.JSONL", "rows.Jsonl", "rows.NDJSON"])
def test_json_lines_are_known_by_their_ending_in_any_case(tmp_path, name):
    (tmp_path / name).write_text('{"prompt": "one"}\n{"prompt": "two"}\n')
    assert [p.text for p in prompt_files.read(tmp_path / name)[0]] == ["one", "two"]


def test_a_whole_surrogate_pair_is_a_character(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"prompt": "\\ud83d\\ude00"}\n')
    assert prompt_files.read(tmp_path / "rows.jsonl")[0][0].text == "\U0001f600"


@pytest.mark.parametrize("name", ["bert", "mistral"])
def test_one_file_of_prompts_serves_all_text_models(tmp_path, name):
    path, model = tmp_path / "rows.jsonl", models.load(name)
    path.write_text('{"prompt": "one", "max_new_tokens": 3}\n{"prompt": "two"}\n')
    found = dataset.prepare(model, model.sizes["tiny"], 64, path, tmp_path)
    assert found.count == 2
    assert any(
        "max_new_tokens of rows.jsonl is ignored: bert predicts" in note for note in found.notes
    ) == (name == "bert")


def test_synthetic_inputs_are_the_same_every_time_and_differ_from_the_inputs(tmp_path):
    one, arrays, synthetic = prepare(tmp_path / "a", MISTRAL)
    two, again, _ = prepare(tmp_path / "b", MISTRAL)
    assert one.digest == two.digest
    np.testing.assert_array_equal(arrays["input_ids"], again["input_ids"])
    assert arrays["input_ids"].shape == (8, 5)
    assert one.description.config == {"prompt_buckets": [5], "new_token_buckets": [45]}
    assert one.description.new_tokens_per_sample == 45
    assert not (synthetic["input_ids"][1:] == arrays["input_ids"]).all(axis=1).any()
    assert len(np.unique(arrays["input_ids"], axis=0)) == 8


def test_uneven_prompts_fall_into_few_buckets_that_the_warm_up_shows_all(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [(9, 4), (20, 30), (100, None), (70, 9)]
    path.write_text(
        "".join(
            json.dumps({"prompt": "x" * n} | ({"max_new_tokens": m} if m else {})) + "\n"
            for n, m in rows
        )
    )
    found, arrays, synthetic = prepare(tmp_path, MISTRAL, path)
    assert arrays["prompt_length"].tolist() == [10, 21, 101, 71]  # one more: the beginning
    assert arrays["max_new_tokens"].tolist() == [4, 30, 45, 9]
    assert found.description.config == {
        "prompt_buckets": [16, 32, 101],
        "new_token_buckets": [8, 16, 32, 45],
    }
    shown = {
        (int(p), int(n))
        for p, n in zip(
            synthetic["prompt_length"][: found.warmup_rows],
            synthetic["max_new_tokens"],
            strict=False,
        )
    }
    assert shown == set(product([16, 32, 101], [8, 16, 32, 45]))
    assert (
        synthetic["prompt_length"][found.warmup_rows :].tolist() == arrays["prompt_length"].tolist()
    )
    assert tokenizer.decode(arrays["input_ids"][1]) == "x" * 20
    assert (arrays["input_ids"][0, 10:] == tokenizer.PAD).all()


def test_a_prompt_for_bert_is_masked_to_its_length(tmp_path):
    path = tmp_path / "text"
    path.write_text("short\n\na little longer")
    found, arrays, synthetic = prepare(tmp_path, BERT, path)
    # The longest, to a multiple of 8, not the 32 of the size.
    assert arrays["input_ids"].shape == (2, 24)
    assert found.description == Description(
        lengths={"shortest": 7, "longest": 17, "padded_to": 24}, seq_len=24
    )
    assert (
        found.notes[0] == "text: 2 prompts of 7 to 17 tokens, padded to 24 (bytes and their marks)"
    )
    assert arrays["attention_mask"].sum(1).tolist() == [7, 17]
    assert synthetic["attention_mask"][found.warmup_rows :].sum(1).tolist() == [7, 17]


def test_a_sequence_length_that_was_asked_for_is_kept(tmp_path):
    path = tmp_path / "text"
    path.write_text("short")
    assert read(path, BERT, BERT.sizes["tiny"], seq_len=19).arrays["input_ids"].shape == (1, 19)
    with pytest.raises(
        UsageError,
        match=r"text:1: the prompt has 7 tokens: shorten it, or give --seq-len 7 or more",
    ):
        read(path, BERT, BERT.sizes["tiny"], seq_len=6)


def test_prompts_of_other_lengths_or_counts_cost_different_amounts(tmp_path):
    def uneven(*rows):
        path = tmp_path / "rows.jsonl"
        path.write_text(
            "".join(
                json.dumps({"prompt": prompt, "max_new_tokens": new}) + "\n" for prompt, new in rows
            )
        )
        return dataset.prepare(
            MISTRAL, MISTRAL.sizes["tiny"], 8, path, tmp_path / "cache"
        ).description.uneven

    assert not uneven(("ab", 4), ("cd", 4))
    assert uneven(("ab", 4), ("cde", 4))
    assert uneven(("ab", 4), ("cd", 5))


def read(path, model, size, **cell):
    """The inputs of a user's file."""
    return dataset.read(UserFile(path=path, model=model, size=size, **cell))


OWN = tokenizer.Tokenizer(
    "tokenizer.json", 12, (0, 11), lambda text: [11, *(len(word) for word in text.split())], str
)


def own_size(model, **config):
    tiny = model.sizes["tiny"]
    return replace(
        tiny,
        name="user",
        inputs={**tiny.inputs, "special_ids": (0, 11)},
        config={**tiny.config, "vocab_size": 12, **config},
    )


def test_a_users_tokenizer_makes_the_ids_and_its_configuration_the_padding(tmp_path):
    path = tmp_path / "text"
    path.write_text("a bb ccc\n\ndddd")
    found = read(path, BERT, own_size(BERT, pad_token_id=9), tokenizer=OWN)
    assert found.arrays["input_ids"][:, :4].tolist() == [[11, 1, 2, 3], [11, 4, 9, 9]]
    assert found.arrays["attention_mask"].sum(1).tolist() == [4, 2]
    assert found.notes == ("text: 2 prompts of 2 to 4 tokens, padded to 8 (tokenizer.json)",)


def test_weights_without_a_tokenizer_read_bytes_and_say_so(tmp_path):
    path = tmp_path / "text"
    path.write_text("ab")
    found = dataset.prepare(MISTRAL, own_size(MISTRAL, vocab_size=259), 8, path, tmp_path / "cache")
    with np.load(found.path) as f:
        assert f["input_ids"].tolist() == [[1, 100, 101]]
    assert found.notes[1].startswith("the weights have no tokenizer, so each byte is a token")
    with pytest.raises(
        UsageError,
        match="needs a vocabulary of 259; mistral user has 12: put a tokenizer.json into",
    ):
        dataset.prepare(MISTRAL, own_size(MISTRAL), 8, path, tmp_path / "cache")


def test_a_prompt_that_becomes_no_token_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": " "}\n')
    silent = replace(OWN, encode=lambda text: [len(word) for word in text.split()])
    with pytest.raises(
        UsageError, match=r"rows.jsonl:2: tokenizer.json makes no token of this prompt"
    ):
        read(path, MISTRAL, own_size(MISTRAL), tokenizer=silent)


@pytest.mark.parametrize(
    ("model", "text", "words"),
    [
        (
            BERT,
            "x" * 1000,
            r"text:1: the prompt has 1002 tokens and bert tiny takes 512: shorten or split it",
        ),
        (MISTRAL, "x" * 40_000, "text:1: 40001 prompt tokens .* positions of mistral tiny"),
        (BERT, "x" * 10**7, "text:1: a prompt of 10,000,000 characters, .* has 512 positions"),
    ],
)
def test_a_prompt_that_is_too_long_is_named_not_cut(tmp_path, model, text, words):
    path = tmp_path / "text"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        prepare(tmp_path, model, path)


def test_a_longer_sequence_can_be_asked_for_up_to_the_models_positions():
    longer = bert.ARCHITECTURE.with_sequence_length
    assert longer(BERT, BERT.sizes["tiny"], 40).inputs["sequence_length"] == 40
    for length in (1, 10**6):
        with pytest.raises(UsageError, match="takes 2 to"):
            longer(BERT, BERT.sizes["tiny"], length)
