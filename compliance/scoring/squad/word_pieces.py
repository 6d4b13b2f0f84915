"""Splits a text into BERT's word pieces, as BertTokenizer of Transformers 4 does."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

CLS, SEP, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
_MARKS = re.compile(r"(\[(?:UNK|SEP|PAD|CLS|MASK)\])")
_LONGEST_WORD = 100
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
"""The first and last code points of the ideographs, each of which is a word."""
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class WordPieces:
    """A vocabulary of word pieces in lower case."""

    def __init__(self, ids: Mapping[str, int]):
        """`ids`: piece → id. Raises ValueError if a mark that BERT needs is not there."""
        lacking = [mark for mark in (CLS, SEP, UNKNOWN) if mark not in ids]
        if lacking:
            raise ValueError(f"the vocabulary has no {', '.join(lacking)}")
        self.ids = ids
        self._known: dict[str, tuple[str, ...]] = {}

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text. A mark in the text, such as [SEP], stays a piece."""
        found: list[str] = []
        for part in _MARKS.split(text):
            if _MARKS.fullmatch(part):
                found.append(part)
                continue
            # Transformers lowers each character by itself, so that a capital sigma becomes σ at the
            # end of a word, too.
            lowered = "".join(character.lower() for character in part)
            for word in words(lowered):
                found += self._of_word(word)
        return found

    def encode(self, pieces: Iterable[str]) -> list[int]:
        """The id of each piece."""
        unknown = self.ids[UNKNOWN]
        return [self.ids.get(piece, unknown) for piece in pieces]

    def text(self) -> str:
        """The vocabulary as a vocab.txt: the piece of each id on its own line."""
        lines = [""] * (1 + max(self.ids.values()))
        for piece, number in self.ids.items():
            lines[number] = piece
        return "".join(f"{line}\n" for line in lines)

    def _of_word(self, word: str) -> tuple[str, ...]:
        if word not in self._known:
            self._known[word] = tuple(self._longest_first(word))
        return self._known[word]

    def _longest_first(self, word: str) -> list[str]:
        """The longest pieces from the beginning on, or one unknown piece."""
        if len(word) > _LONGEST_WORD:
            return [UNKNOWN]
        found: list[str] = []
        start = 0
        while start < len(word):
            before = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if before + word[start:end] in self.ids), None)
            if end is None:
                return [UNKNOWN]
            found.append(before + word[start:end])
            start = end
        return found


def parse(content: bytes) -> WordPieces:
    """The vocabulary of a vocab.txt. Raises ValueError."""
    lines = content.decode("utf-8").replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return WordPieces({line: number for number, line in enumerate(lines)})


def words(text: str) -> list[str]:
    """The words of a text in lower case and without accents. Each punctuation mark and each
    ideograph is a word.
    """
    spaced = "".join(map(_spaced, text))
    found: list[str] = []
    for word in unicodedata.normalize("NFC", spaced).split():
        decomposed = unicodedata.normalize("NFD", word.lower())
        plain = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        found += _split(plain)
    return " ".join(found).split()


def _spaced(character: str) -> str:
    """The character. A control character becomes nothing, and white space becomes a space. An
    ideograph gets spaces around it.
    """
    if character in "\t\n\r":
        return " "
    category = unicodedata.category(character)
    if category.startswith("C") or character == "\ufffd":
        return ""
    if category == "Zs":
        return " "
    code = ord(character)
    if any(first <= code <= last for first, last in _IDEOGRAPHS):
        return f" {character} "
    return character


def _split(word: str) -> Iterator[str]:
    """Yield the parts of a word between punctuation, and each punctuation mark."""
    part = ""
    for character in word:
        if character in _PUNCTUATION or unicodedata.category(character).startswith("P"):
            yield part
            yield character
            part = ""
        else:
            part += character
    yield part
