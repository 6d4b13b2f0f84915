"""The reference of training BERT-like classifiers: every parameter of Transformers' classifier."""

from __future__ import annotations

from sut.contract import Workload
from sut.reference import library
from sut.reference.training import ReferenceTraining, cross_entropy

_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}


def load(workload: Workload) -> ReferenceTraining:
    """The checkpoint's classifier, to be trained."""
    return ReferenceTraining(library.load_model(workload, **_NO_DROPOUT), cross_entropy, workload)
