"""The metric of bert-99: the F1 and the exact match of a run's start and end logits."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from compliance.scoring.squad import features, metric, spans, word_pieces
from compliance.scoring.value import AnswerBytes, Scored


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
    scores = metric.scores(questions, spans.texts(questions, made, logits))
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
