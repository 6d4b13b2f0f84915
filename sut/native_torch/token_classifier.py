"""Classifiers of tokens of Transformers. Their answers are logits [batch, length, classes]."""

from __future__ import annotations

from sut.contract import Workload
from sut.native_torch.bert import TorchClassifier
from sut.native_torch.bert import load as load_classifier


def load(workload: Workload) -> TorchClassifier:
    """The checkpoint's model, in the workload's precision and execution."""
    return load_classifier(workload)
