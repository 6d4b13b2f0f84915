"""The accuracy of a run directory's answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from compliance.logs import files
from compliance.scoring import accuracy
from compliance.scoring.value import Accuracy, AnswerBytes
from formats.record import Judged


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
