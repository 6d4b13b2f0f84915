"""BERT-like classifiers of Transformers. The measured call is the model's own `__call__`."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sut.contract import Batch, Workload
from sut.native_torch import execution

if TYPE_CHECKING:
    from sut.native_torch.trainer import TrainerTraining

# Without `problem_type` the model would choose its loss at its first call, and a compiled model
# would be compiled again.
_TRAINED: dict[str, Any] = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": 0.0,
    "problem_type": "single_label_classification",
}


class TorchClassifier(execution.OneModel):
    """A Transformers classifier. Its methods are those of `sut.contract.Inference`."""

    def __init__(
        self,
        model: Any,
        workload: Workload,
        answers: Callable[[Any], torch.Tensor] = attrgetter("logits"),
    ):
        """`answers`: the model's outputs → the logits."""
        super().__init__(model, workload)
        self.answers = answers

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs as int64, which torch's embedding and mask kernels take without another
        copy.
        """
        return {name: values.astype(np.int64) for name, values in inputs.items()}

    def predict(self, batch: Batch) -> execution.OnItsWay:
        """Return the logits, float32 [batch, …], on their way to the host."""
        with torch.no_grad():
            logits = self.answers(self.model(**execution.on_device(batch, self.workload)))
        return execution.OnItsWay(logits.float())

    def to_host(self, outputs: execution.OnItsWay) -> Batch:
        """Return the logits, once they have arrived."""
        return {"logits": outputs.wait().contiguous().numpy()}


def load(workload: Workload) -> TorchClassifier:
    """The checkpoint's model, in the workload's precision and execution."""
    return TorchClassifier(execution.load_model(workload), workload)


def load_training(workload: Workload) -> TrainerTraining:
    """The checkpoint's model, in the workload's precision and execution, to train every parameter;
    see `trainer`.
    """
    # Its import takes seconds, and only a training needs it.
    from sut.native_torch.trainer import TrainerTraining, renamed

    prepare = renamed(input_ids="input_ids", attention_mask="attention_mask", labels="label")
    return TrainerTraining(execution.load_model(workload, **_TRAINED), workload, prepare)
