"""Trains every parameter of BERT-like classifiers of Transformers; see `trainer`."""

from __future__ import annotations

from typing import Any

from sut.contract import Workload
from sut.native_torch import execution
from sut.native_torch.trainer import TrainerTraining, renamed

# The model would choose its loss at its first call, and a compiled one be compiled again for it.
_CONFIG: dict[str, Any] = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": 0.0,
    "problem_type": "single_label_classification",
}
_prepare = renamed(input_ids="input_ids", attention_mask="attention_mask", labels="label")


def load(workload: Workload) -> TrainerTraining:
    """The checkpoint's model, in the workload's precision and execution, to be trained."""
    return TrainerTraining(execution.load_model(workload, **_CONFIG), workload, _prepare)
