"""Reads a file of SQuAD v1.1, and makes the features of its questions.

A feature is a question with one window of its text: [CLS] question [SEP] text [SEP], padded. A text
that is longer than a window has several, which overlap.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from compliance.scoring.squad.word_pieces import CLS, SEP, WordPieces

WIDTH = 384
"""The tokens of a feature in bert-99."""
STRIDE = 128
"""The tokens from the beginning of a window to that of the next one."""
LONGEST_QUESTION = 64
"""Tokens. The rest of a longer question is left out."""
VERSION = "1.1"
_MARKS = 3  # one [CLS] and two [SEP]
_TO_SPACES = str.maketrans(dict.fromkeys("\t\r\n\u202f", " "))


@dataclass(frozen=True)
class Question:
    """A question of the file.

    Attributes:
        words: the words of its text, as spaces separate them.
        answers: the right answers; each is as good as the others.
    """

    id: str
    text: str
    words: tuple[str, ...]
    answers: tuple[str, ...]


class Window(NamedTuple):
    """A part of a text: the place of its first piece, and the number of its pieces."""

    start: int
    length: int


@dataclass(frozen=True, eq=False)
class Feature:
    """A question with one window of its text.

    Attributes:
        question: the number of the question in the file, from 0.
        pieces: its tokens without padding.
        first: the position of the window's first token.
        word_of: for each token of the window, the number of its word in the text.
        is_best: for each token of the window, whether no other window shows more of its context,
            bool.
    """

    question: int
    pieces: tuple[str, ...]
    first: int
    word_of: Sequence[int]
    is_best: np.ndarray


def parse(content: bytes) -> list[Question]:
    """The questions of a file, in its order. Raises ValueError with one sentence if it is no file
    of SQuAD v1.1.
    """
    try:
        document = json.loads(content)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError("is not JSON") from None
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise ValueError("has no list `data` of articles, as a file of SQuAD has")
    version = str(document.get("version")).removeprefix("v")
    if version != VERSION:
        raise ValueError(
            f"is of version {version} of SQuAD, and the benchmark uses {VERSION}: give"
            " dev-v1.1.json"
        )
    try:
        questions = list(_questions(document["data"]))
    except (KeyError, TypeError, AttributeError):
        raise ValueError(
            "lacks a field of SQuAD: each of `data` has `paragraphs`, each of these `context` and"
            " `qas`, and each of these `id`, `question` and `answers`"
        ) from None
    if not questions:
        raise ValueError("has no question")
    return questions


def _questions(articles: list[Any]) -> Iterator[Question]:
    known: set[str] = set()
    for article in articles:
        for paragraph in article["paragraphs"]:
            words = tuple(_words(_string(paragraph["context"])))
            for each in paragraph["qas"]:
                name = _string(each["id"])
                answers = tuple(_string(answer["text"]) for answer in each["answers"])
                if not answers:
                    raise ValueError(f"has a question without an answer ({name[:40]})")
                if name in known:
                    raise ValueError(f"has the question {name[:40]} twice")
                known.add(name)
                yield Question(name, _string(each["question"]), words, answers)


def _string(value: Any) -> str:
    """Raises TypeError for anything but a text."""
    if not isinstance(value, str):
        raise TypeError
    return value


def _words(text: str) -> list[str]:
    """The words of a text between spaces. Other white space is a part of a word."""
    spaced = text.translate(_TO_SPACES)
    return [word for word in spaced.split(" ") if word]


def make(questions: Sequence[Question], pieces: WordPieces, width: int = WIDTH) -> list[Feature]:
    """The features of all questions, in their order.

    Args:
        width: tokens of a feature, with padding.

    Raises ValueError if a question leaves no room for a text.
    """
    features: list[Feature] = []
    of_text: tuple[str, ...] = ()
    text: list[str] = []
    word_of: list[int] = []
    for number, question in enumerate(questions):
        words = question.words
        if words is not of_text:
            text, word_of = _of_words(words, pieces)
            of_text = words
        asked = pieces.pieces(question.text)[:LONGEST_QUESTION]
        room = width - len(asked) - _MARKS
        if room < 1:
            raise ValueError(
                f"a question has {len(asked)} tokens, which leaves no room for its text in {width}"
            )
        windows = list(_windows(len(text), room))
        reach = room // min(room, STRIDE) + 1
        for place, window in enumerate(windows):
            start = window.start
            end = start + window.length
            tokens = (CLS, *asked, SEP, *text[start:end], SEP)
            # Only these overlap with it.
            near = windows[max(0, place - reach) : place + reach + 1]
            best = [_best(near, position) is window for position in range(start, end)]
            features.append(
                Feature(
                    question=number,
                    pieces=tokens,
                    first=len(asked) + 2,
                    word_of=word_of[start:end],
                    is_best=np.array(best, bool),
                )
            )
    return features


def arrays(features: Sequence[Feature], pieces: WordPieces, width: int) -> dict[str, np.ndarray]:
    """`input_ids`, `attention_mask` and `token_type_ids` (1 for the window), int32 [features,
    width]. Padding is 0.
    """
    made = {
        name: np.zeros((len(features), width), np.int32)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    for row, feature in enumerate(features):
        length = len(feature.pieces)
        made["input_ids"][row, :length] = pieces.encode(feature.pieces)
        made["attention_mask"][row, :length] = 1
        made["token_type_ids"][row, feature.first : length] = 1
    return made


def _of_words(words: Sequence[str], pieces: WordPieces) -> tuple[list[str], list[int]]:
    """(the pieces of a text, the number of the word of each piece)."""
    text: list[str] = []
    word_of: list[int] = []
    for number, word in enumerate(words):
        of_word = pieces.pieces(word)
        text += of_word
        word_of += [number] * len(of_word)
    return text, word_of


def _windows(length: int, room: int) -> Iterator[Window]:
    """Yield the windows of a text of `length` pieces, of which `room` fit into a feature."""
    start = 0
    while start < length:
        window = Window(start, min(length - start, room))
        yield window
        if start + window.length == length:
            return
        start += min(window.length, STRIDE)


def _best(windows: Sequence[Window], position: int) -> Window | None:
    """The window that shows most context on both sides of a piece; the first of several."""
    best = None
    highest = -1.0
    for window in windows:
        before = position - window.start
        after = window.start + window.length - 1 - position
        context = min(before, after) + 0.01 * window.length
        if before >= 0 and after >= 0 and context > highest:
            best = window
            highest = context
    return best
