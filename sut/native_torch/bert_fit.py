"""Trains BERT-like classifiers of Transformers in PyTorch's usual loop.

Transformers' own loop, `Trainer`, needs the package accelerate, which no environment here has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from sut.contract import Batch, Evidence, Workload
from sut.native_torch import execution

# The model would choose its loss at its first call, and a compiled one be compiled again for it.
_CONFIG: dict[str, Any] = {
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": 0.0,
    "problem_type": "single_label_classification",
}
_NAMES = {"input_ids": "input_ids", "attention_mask": "attention_mask", "label": "labels"}


class TorchTraining:
    """A Transformers classifier and PyTorch's AdamW. Its methods are those of `sut.contract.Training`."""

    def __init__(self, model: Any, workload: Workload):
        self.model, self.workload = model.train(), workload
        self.trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
        constants = workload.config["optimizer"]
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=constants["learning_rate"],
            betas=(constants["beta_1"], constants["beta_2"]),
            eps=constants["epsilon"],
            weight_decay=constants["weight_decay"],
        )
        self.sum, self.count = torch.zeros((), device=workload.device), 0

    def prepare(self, inputs: Batch) -> Batch:
        """int64 under Transformers' names."""
        return {theirs: inputs[ours].astype(np.int64) for ours, theirs in _NAMES.items()}

    def fit(self, batches: Iterable[Batch], steps: int, on_step: Callable[[Callable[[], float]], None]) -> None:
        """The loop of PyTorch's tutorials. Losses are summed on the device, so that no step waits for it."""
        for batch in batches:
            arrays = {name: execution.to_device(values, self.workload.device) for name, values in batch.items()}
            loss = self.model(**arrays).loss
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.sum += loss.detach().float()
            self.count += 1
            on_step(self._mean_loss)

    def _mean_loss(self) -> float:
        mean = self.sum.item() / self.count
        self.sum.zero_()
        self.count = 0
        return mean

    def synchronise(self) -> None:
        """Wait for the device."""
        execution.synchronise(self.workload)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `execution.evidence`."""
        return execution.evidence(self.model, self.workload, f"{type(self.model).__name__}.__call__, backward, AdamW.step", call)


def load(workload: Workload) -> TorchTraining:
    """The checkpoint's model, in the workload's precision and execution, to be trained."""
    return TorchTraining(execution.load_model(workload, **_CONFIG), workload)
