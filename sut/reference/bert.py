"""The reference for BERT-like classifiers."""

from __future__ import annotations

from sut.contract import Workload
from sut.reference import library
from sut.reference.library import load
from sut.reference.training import ReferenceTraining, cross_entropy

__all__ = ["load", "load_training"]

_NO_DROPOUT = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": 0.0,
}


def load_training(workload: Workload) -> ReferenceTraining:
    """The checkpoint's classifier, to train every parameter."""
    return ReferenceTraining(library.load_model(workload, **_NO_DROPOUT), cross_entropy, workload)
