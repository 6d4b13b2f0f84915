"""BERT-like classifiers of Transformers. The measured call is the model's own `__call__`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sut.contract import Workload
from sut.native_torch import execution
from sut.native_torch.execution import load_predictor as load

if TYPE_CHECKING:
    from sut.native_torch.trainer import TrainerTraining

__all__ = ["load", "load_training"]

# Without `problem_type` the model would choose its loss at its first call, and a compiled model
# would be compiled again.
_TRAINED: dict[str, Any] = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": 0.0,
    "problem_type": "single_label_classification",
}


def load_training(workload: Workload) -> TrainerTraining:
    """The checkpoint's model, in the workload's precision and execution, to train every parameter;
    see `trainer`.
    """
    # Its import takes seconds, and only a training needs it.
    from sut.native_torch.trainer import TrainerTraining, renamed

    prepare = renamed(input_ids="input_ids", attention_mask="attention_mask", labels="label")
    return TrainerTraining(execution.load_model(workload, **_TRAINED), workload, prepare)
