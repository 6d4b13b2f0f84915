"""The metric of bert-99: the F1 and the exact match of a run's start and end logits."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from compliance.scoring.squad import features, spans, word_pieces
from compliance.scoring.squad.features import Question
from compliance.scoring.value import AnswerBytes, Scored

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def score(contents: Mapping[str, bytes], answers: AnswerBytes) -> Scored:
    """The metric, and the line of accuracy-squad.py.

    Args:
        contents: name of a file → its content: `dev-v1.1.json` and `vocab.txt`.
        answers: number of a feature → start and end logits, float32 [length, 2].

    Raises ValueError with one sentence if the answers are not those of the features.
    """
    questions = features.parse(contents["dev-v1.1.json"])
    pieces = word_pieces.parse(contents["vocab.txt"])
    logits = {number: _pairs(number, data) for number, data in answers.items()}
    widths = {len(each) for each in logits.values()}
    if len(widths) != 1:
        raise ValueError("the answers have no length or several")
    made = features.make(questions, pieces, widths.pop())
    if sorted(answers) != list(range(len(made))):
        raise ValueError(f"{len(answers)} answers do not fit {len(made)} features")
    scores = _scores(questions, spans.texts(questions, made, logits))
    return Scored({"F1": scores["f1"]}, json.dumps(scores))


def _pairs(number: int, data: bytes) -> np.ndarray:
    """The start and end logits of a feature, float32 [length, 2]. Raises ValueError."""
    if not data or len(data) % 8:
        raise ValueError(
            f"the answer of sample {number} has {len(data)} bytes, not pairs of logits"
        )
    pairs = np.frombuffer(data, np.float32).reshape(-1, 2)
    if not np.isfinite(pairs).all():
        raise ValueError(f"the answer of sample {number} has values that are not finite")
    return pairs


def _scores(questions: Sequence[Question], answers: Mapping[str, str]) -> dict[str, float]:
    """`exact_match` and `f1` in percent: the means over the questions of the best agreement with
    one of the right answers.

    Args:
        answers: id of each question → its answer.
    """
    exact = 0
    f1 = 0.0
    for question in questions:
        answer = _plain(answers[question.id])
        right = [_plain(each) for each in question.answers]
        exact += answer in right
        f1 += max(_f1(answer.split(), each.split()) for each in right)
    return {
        "exact_match": 100.0 * exact / len(questions),
        "f1": 100.0 * f1 / len(questions),
    }


def _plain(text: str) -> str:
    """The text in lower case without punctuation, articles and further spaces."""
    letters = text.lower().translate(_WITHOUT_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", letters).split())


def _f1(answer: Sequence[str], right: Sequence[str]) -> float:
    """The harmonic mean of precision and recall of the answer's words."""
    shared = sum((Counter(answer) & Counter(right)).values())
    if shared == 0:
        return 0.0
    precision = shared / len(answer)
    recall = shared / len(right)
    return (2 * precision * recall) / (precision + recall)
