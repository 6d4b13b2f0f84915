from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.inputs import dataset, models, prompt_files, tokenizer
from harness.inputs.architectures import Description, UserFile, bert
from tests.support.files import write_rows

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


@given(
    st.lists(st.text(min_size=1).filter(str.strip), min_size=1),
    st.lists(st.one_of(st.none(), st.integers(1, 50)), min_size=1),
)
def test_json_lines_come_back_as_they_were_written(tmp_path_factory, prompts, counts):
    pairs = list(zip(prompts, counts, strict=False))
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    write_rows(path, ({"prompt": p} | ({"max_new_tokens": n} if n else {}) for p, n in pairs))
    assert [(p.text, p.max_new_tokens) for p in prompt_files.read(path)[0]] == pairs


@pytest.mark.parametrize("name", ["bert", "mistral"])
def test_one_file_of_prompts_serves_all_text_models(tmp_path, name):
    rows = [{"prompt": "one", "max_new_tokens": 3}, {"prompt": "two"}]
    path, model = write_rows(tmp_path / "rows.jsonl", rows), models.load(name)
    found, *_ = prepare(tmp_path, model, path, 64)
    assert found.count == 2
    note = "max_new_tokens of rows.jsonl is ignored: bert predicts"
    assert any(note in text for text in found.notes) == (name == "bert")


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
    rows = [{"prompt": "x" * n, "max_new_tokens": m} for n, m in ((9, 4), (20, 30), (70, 9))]
    rows.insert(2, {"prompt": "x" * 100})
    path = write_rows(tmp_path / "rows.jsonl", rows)
    found, arrays, synthetic = prepare(tmp_path, MISTRAL, path)
    assert arrays["prompt_length"].tolist() == [10, 21, 101, 71]  # one more: the beginning
    assert arrays["max_new_tokens"].tolist() == [4, 30, 45, 9]
    assert found.description.config == {
        "prompt_buckets": [16, 32, 101],
        "new_token_buckets": [8, 16, 32, 45],
    }
    lengths, counts = (synthetic[name].tolist() for name in ("prompt_length", "max_new_tokens"))
    warm = found.warmup_rows
    shown = set(zip(lengths[:warm], counts[:warm], strict=True))
    assert shown == set(product([16, 32, 101], [8, 16, 32, 45]))
    assert lengths[warm:] == arrays["prompt_length"].tolist()
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
    note = "text: 2 prompts of 7 to 17 tokens, padded to 24 (bytes and their marks)"
    assert found.notes[0] == note
    assert arrays["attention_mask"].sum(1).tolist() == [7, 17]
    assert synthetic["attention_mask"][found.warmup_rows :].sum(1).tolist() == [7, 17]


def test_a_sequence_length_that_was_asked_for_is_kept(tmp_path):
    path = tmp_path / "text"
    path.write_text("short")
    assert read(path, BERT, BERT.sizes["tiny"], seq_len=19).arrays["input_ids"].shape == (1, 19)
    words = "text:1: the prompt has 7 tokens: shorten it, or give --seq-len 7 or more"
    with pytest.raises(UsageError, match=words):
        read(path, BERT, BERT.sizes["tiny"], seq_len=6)


def test_prompts_of_other_lengths_or_counts_cost_different_amounts(tmp_path):
    def uneven(*rows):
        rows = ({"prompt": prompt, "max_new_tokens": new} for prompt, new in rows)
        path = write_rows(tmp_path / "rows.jsonl", rows)
        return prepare(tmp_path, MISTRAL, path)[0].description.uneven

    assert not uneven(("ab", 4), ("cd", 4))
    assert uneven(("ab", 4), ("cde", 4))
    assert uneven(("ab", 4), ("cd", 5))


def read(path, model, size, **cell):
    """The inputs of a user's file."""
    return dataset.read(UserFile(path=path, model=model, size=size, **cell))


def encode(text):
    return [11, *(len(word) for word in text.split())]


OWN = tokenizer.Tokenizer("tokenizer.json", 12, (0, 11), encode, str)


def own_size(model, **config):
    tiny = model.sizes["tiny"]
    inputs = {**tiny.inputs, "special_ids": (0, 11)}
    config = {**tiny.config, "vocab_size": 12, **config}
    return replace(tiny, name="user", inputs=inputs, config=config)


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
    words = "needs a vocabulary of 259; mistral user has 12: put a tokenizer.json into"
    with pytest.raises(UsageError, match=words):
        dataset.prepare(MISTRAL, own_size(MISTRAL), 8, path, tmp_path / "cache")


def test_a_prompt_that_becomes_no_token_is_named(tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", ({"prompt": text} for text in ("a", " ")))
    silent = replace(OWN, encode=lambda text: [len(word) for word in text.split()])
    words = "rows.jsonl:2: tokenizer.json makes no token of this prompt"
    with pytest.raises(UsageError, match=words):
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
