"""The reference for BERT-like classifiers."""

from __future__ import annotations

from typing import Any

import torch

from sut.contract import Batch, Workload
from sut.reference import library
from sut.reference.training import ReferenceTraining, cross_entropy

_NO_DROPOUT = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": 0.0,
}


def _answers(model: Any, inputs: dict[str, torch.Tensor]) -> Batch:
    """Return the logits [batch, classes], float32."""
    return {"logits": model(**inputs).logits.cpu().numpy()}


def load(workload: Workload) -> library.Predictor:
    """The checkpoint's classifier."""
    return library.Predictor(workload, _answers)


def load_training(workload: Workload) -> ReferenceTraining:
    """The checkpoint's classifier, to train every parameter."""
    return ReferenceTraining(library.load_model(workload, **_NO_DROPOUT), cross_entropy, workload)
