"""The tokenizers of a user's folder, each trained here."""

import io
import json

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from formats.writing import write_json
from harness.errors import UsageError
from harness.inputs import tokenizer
from tests.support.tokens import TEXT, bpe


@pytest.fixture
def sentences(tmp_path):
    out = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 4), model_writer=out, vocab_size=60, minloglevel=2
    )
    (tmp_path / "tokenizer.model").write_bytes(out.getvalue())
    return tmp_path


def test_tokenizer_json_adds_its_own_marks_and_neither_cuts_nor_pads(tmp_path):
    made = bpe(400)
    made.enable_truncation(4)
    made.enable_padding(length=50)
    made.save(str(tmp_path / "tokenizer.json"))
    found = tokenizer.of_folder(tmp_path)
    ids = found.encode("ais bjt ais bjt")
    assert ids[0] == 1
    assert 0 not in ids
    assert len(ids) > 4
    assert (found.name, found.vocabulary, found.special) == ("tokenizer.json", 400, (0, 1, 2))
    assert made.decode(ids[1:]) == " ais bjt ais bjt"


@pytest.mark.parametrize(
    ("settings", "begins", "ends"),
    [
        (None, True, False),
        ({"add_bos_token": False}, False, False),
        ({"add_eos_token": True}, True, True),
    ],
)
def test_tokenizer_model_adds_the_marks_of_its_settings(sentences, settings, begins, ends):
    if settings is not None:
        write_json(sentences / "tokenizer_config.json", settings)
    found = tokenizer.of_folder(sentences)
    reader = SentencePieceProcessor(model_file=str(sentences / "tokenizer.model"))
    wanted = [reader.bos_id()] * begins + reader.encode("ais bjt") + [reader.eos_id()] * ends
    assert found.encode("ais bjt") == wanted
    assert (found.name, found.vocabulary, found.special) == ("tokenizer.model", 60, (0, 1, 2))


def test_a_berts_vocab_txt_is_a_tokenizer_of_words_and_their_pieces(tmp_path):
    (tmp_path / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "##dish", "apple"])
    )
    found = tokenizer.of_folder(tmp_path)
    assert found.encode("Reddish apple stone") == [2, 5, 6, 7, 1, 3]
    assert (found.name, found.vocabulary, found.special) == ("vocab.txt", 8, (0, 1, 2, 3, 4))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert tokenizer.of_folder(tmp_path).encode("Red red") == [2, 1, 5, 3]


def test_no_code_of_a_folder_is_run(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    named = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", None]}}
    write_json(tmp_path / "tokenizer_config.json", named)
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    assert tokenizer.of_folder(tmp_path).encode("a") == [2, 1, 3]
    assert not (tmp_path / "ran").exists()


def test_tokenizer_json_goes_before_the_others_and_none_is_none(sentences):
    bpe(300).save(str(sentences / "tokenizer.json"))
    assert tokenizer.of_folder(sentences).name == "tokenizer.json"
    for file in sentences.iterdir():
        file.unlink()
    assert tokenizer.of_folder(sentences) is None


def test_bytes_are_marked_at_the_end_only_for_a_model_that_predicts():
    assert tokenizer.of_bytes(closing=True).encode("a") == [1, 100, 2]
    assert tokenizer.of_bytes(closing=False).encode("a") == [1, 100]


def test_tokens_that_only_a_tokenizer_json_carries_are_not_cut_into_pieces(sentences):
    (sentences / "added_tokens.json").write_text('{"<s>": 1}')
    assert tokenizer.of_folder(sentences).encode("the cat")
    (sentences / "added_tokens.json").write_text('{"<|im_start|>": 60}')
    with pytest.raises(UsageError, match="added_tokens.json has tokens that tokenizer.model lacks"):
        tokenizer.of_folder(sentences).encode("the cat")


_PANICS = {
    "loads": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}},
    "encodes": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "X", "type_id": 0}}],
            "pair": [],
            "special_tokens": {},
        }
    },
}
"""Parts of a tokenizer.json with which the library in Rust panics, which is no Exception."""


@pytest.mark.parametrize("when", _PANICS)
def test_a_panic_of_the_library_is_one_sentence(tmp_path, when):
    made = json.loads(bpe(300).to_str()) | _PANICS[when]
    write_json(tmp_path / "tokenizer.json", made)
    with pytest.raises(UsageError, match="tokenizer.json is not a tokenizer .*download it again"):
        tokenizer.of_folder(tmp_path).encode("ais bjt")
