"""The accuracy of a run directory's answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from compliance.logs import files
from compliance.rules import Benchmark
from compliance.scoring import accuracy, official
from compliance.scoring.value import Accuracy, AnswerBytes
from formats.record import Judged, Record

OtherAnswers = Iterable[tuple[int, bytes]]
"""Index of a sample, and another answer to it; a sample may occur several times."""


def arrays(run: Path) -> tuple[Mapping[str, np.ndarray], np.ndarray | None, np.ndarray | None]:
    """(the reference's answers, the SUT's logits on them, its logits on its own answers). There are
    logits only of a model that generates. Raises ValueError with one sentence if a file cannot be
    read.
    """
    reference, why = files.attempt(files.arrays, run / "reference.npz")
    if reference is None:
        raise ValueError(why)
    raw = run / "raw" / "accuracy"
    return reference, _logits(raw / "logits.npy"), _logits(raw / "own_logits.npy")


def _logits(path: Path) -> np.ndarray | None:
    """The logits of a file; None if it is not there."""
    if not path.exists() and not path.is_symlink():
        return None
    found, why = files.attempt(files.array, path)
    if found is None:
        raise ValueError(why)
    return found


def score(run: Path, judged: Judged, answers: AnswerBytes) -> Accuracy:
    """The score of all answers. Raises ValueError, or another error of damaged content
    (`files.DAMAGE`).
    """
    reference, logits, own = arrays(run)
    return accuracy.score(
        judged.score, answers, reference, judged.tolerance, judged.keys, logits=logits, own=own
    )


def worst(run: Path, judged: Judged, answers: AnswerBytes, others: OtherAnswers) -> Accuracy:
    """The score with other answers to some samples put in. Of several scores, it is the first that
    does not pass, else the largest. Raises ValueError, or another error of damaged content
    (`files.DAMAGE`).
    """
    reference, logits, _ = arrays(run)
    # The SUT's own logits exist only for the accuracy test's answers, and not for these.
    tolerance = {
        name: limit for name, limit in judged.tolerance.items() if name != "argmax_fraction"
    }
    scores = []
    for changed in accuracy.variants(others):
        given = {**answers, **changed}
        scores.append(
            accuracy.score(judged.score, given, reference, tolerance, judged.keys, logits)
        )
    largest = max(scores, key=lambda score: score.value)
    return next((score for score in scores if not score.passed), largest)


def with_others(
    run: Path,
    record: Record,
    benchmarks: Mapping[str, Benchmark],
    answers: AnswerBytes,
    others: OtherAnswers,
    compared: int,
) -> tuple[bool, str]:
    """(whether the accuracy passes with other answers to some samples, the score in words). A run
    of `--benchmark` whose answers are too far from the reference is scored by the official metric.

    Args:
        benchmarks: those of the round.
        answers: the accuracy test's.
        compared: the number of answers of which `others` are the ones that differ.

    Raises ValueError, or another error of damaged content (`files.DAMAGE`).
    """
    others = list(others)
    if not record.no_reference:
        score = worst(run, record.accuracy, answers, others)
        if score.passed or not record.official:
            return score.passed, score.sentence
    if record.official is None:
        raise ValueError("there is no reference to score them")
    row = benchmarks[record.benchmark.official].of(record.cell.scenario)
    changes = accuracy.variants(others)
    return official.with_others(run, record.official, row, answers, changes, compared)
