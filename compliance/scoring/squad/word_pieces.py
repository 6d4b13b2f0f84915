"""Splits a text into BERT's word pieces, as BertTokenizer of Transformers 4 does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CLS = "[CLS]"
SEP = "[SEP]"
UNKNOWN = "[UNK]"


class WordPieces:
    """A vocabulary of word pieces in lower case."""

    def __init__(self, ids: Mapping[str, int]):
        """`ids`: piece → id. Raises ValueError if a mark that BERT needs is not there."""
        from tokenizers import BertWordPieceTokenizer  # few audits need it

        lacking = [mark for mark in (CLS, SEP, UNKNOWN) if mark not in ids]
        if lacking:
            raise ValueError(f"the vocabulary has no {', '.join(lacking)}")
        self.ids = ids
        self.reader = BertWordPieceTokenizer(dict(ids), lowercase=True)

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text. A mark in the text, such as [SEP], stays a piece."""
        return list(self.reader.encode(text, add_special_tokens=False).tokens)

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
    normalizer, splitter = _steps()
    # A capital sigma at the end of a word becomes ς, but σ in `pieces`, as in Transformers.
    plain = normalizer.normalize_str(text.lower())
    return [word for word, _ in splitter.pre_tokenize_str(plain)]


def _steps() -> tuple[Any, Any]:
    """BERT's normalizer, and its splitter of texts into words."""
    from tokenizers import normalizers, pre_tokenizers

    return normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
