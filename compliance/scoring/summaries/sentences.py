"""Splits English text into sentences, as nltk.sent_tokenize does with its parameters `punkt`."""

from __future__ import annotations

import punkt


def split(text: str) -> list[str]:
    """The sentences of a text. White space between them is left out."""
    found: list[str] = punkt.sent_tokenize(text, "english")
    return found
