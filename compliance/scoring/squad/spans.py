"""Makes the answer to each question, as text, from the start and end logits of its features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from compliance.scoring.squad.features import Feature, Question
from compliance.scoring.squad.word_pieces import words

_MOST = 20
"""The starts and ends of a feature that are combined: those with the largest logits."""
_LONGEST = 30
"""Tokens of an answer."""
_NO_ANSWER = "empty"


def texts(
    questions: Sequence[Question],
    features: Sequence[Feature],
    logits: Mapping[int, np.ndarray],
) -> dict[str, str]:
    """Id of each question → its answer.

    Args:
        logits: number of a feature → its logits, float [length, 2]: start and end. A feature that
            is not there has no answer.
    """
    answers = dict.fromkeys((question.id for question in questions), _NO_ANSWER)
    highest: dict[int, float] = {}
    for number, feature in enumerate(features):
        if number not in logits:
            continue
        found = _best(feature, np.asarray(logits[number], np.float64))
        if found is None:
            continue
        start, end, sum_of_logits = found
        question = questions[feature.question]
        if sum_of_logits > highest.get(feature.question, -np.inf):
            highest[feature.question] = sum_of_logits
            answers[question.id] = _text(question, feature, start, end)
    return answers


def _best(feature: Feature, logits: np.ndarray) -> tuple[int, int, float] | None:
    """(first token, last token, the sum of their logits) of the best answer within a feature. None:
    no answer is possible.
    """
    starts = np.argsort(-logits[:, 0], kind="stable")[:_MOST]
    ends = np.argsort(-logits[:, 1], kind="stable")[:_MOST]
    length = ends[None, :] - starts[:, None] + 1
    first = feature.first
    last = first + len(feature.word_of)
    possible = (length >= 1) & (length <= _LONGEST)
    possible &= ((starts >= first) & (starts < last))[:, None]
    possible &= ((ends >= first) & (ends < last))[None, :]
    in_window = np.clip(starts - first, 0, len(feature.word_of) - 1)
    possible &= feature.is_best[in_window][:, None]
    if not possible.any():
        return None
    sums = logits[starts, 0][:, None] + logits[ends, 1][None, :]
    # The first of equal sums counts.
    place = int(np.argmax(np.where(possible, sums, -np.inf)))
    row, column = divmod(place, len(ends))
    return int(starts[row]), int(ends[column]), float(sums[row, column])


def _text(question: Question, feature: Feature, start: int, end: int) -> str:
    """The words of the text from one token to another."""
    pieces = " ".join(feature.pieces[start : end + 1])
    joined = pieces.replace(" ##", "").replace("##", "")
    first = feature.word_of[start - feature.first]
    last = feature.word_of[end - feature.first]
    original = " ".join(question.words[first : last + 1])
    return _as_written(" ".join(joined.split()), original)


def _as_written(answer: str, original: str) -> str:
    """The original spelling of the answer, which is in lower case. All original words if their
    characters do not correspond one to one.
    """
    lowered = " ".join(words(original))
    begin = lowered.find(answer)
    if begin < 0:
        return original
    places = _places(original)
    lowered_places = _places(lowered)
    if len(places) != len(lowered_places):
        return original
    original_of = dict(zip(lowered_places, places, strict=True))
    first = original_of.get(begin)
    last = original_of.get(begin + len(answer) - 1)
    if first is None or last is None:
        return original
    return original[first : last + 1]


def _places(text: str) -> list[int]:
    """The places of the characters that are no spaces."""
    return [place for place, character in enumerate(text) if character != " "]
