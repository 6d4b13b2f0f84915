"""The reference for classifiers of tokens. Its answers are logits [batch, length, classes]."""

from __future__ import annotations

from sut.contract import Workload
from sut.reference import bert, library


def load(workload: Workload) -> library.Predictor:
    """The checkpoint's classifier."""
    return bert.load(workload)
