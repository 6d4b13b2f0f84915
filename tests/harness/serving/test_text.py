"""Tokens → text, as they arrive."""

from hypothesis import given
from hypothesis import strategies as st

from harness.inputs import tokenizer
from harness.serving.text import Text

_BYTES = tokenizer.of_bytes(closing=False)


def parts(text, stop=(), prompt=()):
    ids = tokenizer.encode(text)
    found = Text(_BYTES.decode, prompt, stop)
    texts = [found.add([i], last=n == len(ids) - 1) for n, i in enumerate(ids)]
    return found, texts


@given(st.text(), st.text())
def test_the_parts_of_a_text_are_the_text(text, prompt):
    _, texts = parts(text, prompt=tokenizer.encode(prompt))
    assert "".join(texts) == text


@given(st.text(alphabet="ab", max_size=30), st.lists(st.text("ab", min_size=1, max_size=4)))
def test_a_text_ends_before_its_first_stop_text(text, stop):
    found, texts = parts(text, stop)
    ends = [text.find(each) for each in stop if each in text]
    assert found.stopped == bool(ends)
    # A longer stop text may begin earlier, and be complete only after a shorter one.
    if len(stop) < 2:
        assert "".join(texts) == (text[: min(ends)] if ends else text)


def test_a_character_of_several_tokens_comes_with_its_last_one():
    assert parts("aé")[1] == ["a", "", "é"]


def test_bytes_that_are_no_character_are_not_held_back_for_ever():
    found = Text(_BYTES.decode, (), ())
    texts = [found.add([0xFF + 3], last=False) for _ in range(6)]
    assert "".join(texts) == "\ufffd" * 4


def test_the_beginning_of_a_stop_text_is_held_back():
    _, texts = parts("abxab", stop=["abc"])
    assert texts == ["", "", "abx", "", "ab"]


def test_the_first_token_keeps_its_space():
    """As in tokenizers of SentencePiece, which drop the space in front of the first token."""
    words = {1: " a", 2: " b"}

    def decode(ids):
        return "".join(words[i] for i in ids).removeprefix(" ")

    found = Text(decode, [1], ())
    assert found.add([2], last=True) == " b"
