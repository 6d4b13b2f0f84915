"""F1 and exact match of answers to the questions of SQuAD v1.1."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence

from compliance.scoring.squad.features import Question

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def scores(questions: Sequence[Question], answers: Mapping[str, str]) -> dict[str, float]:
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
