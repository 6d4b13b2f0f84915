"""The reference for every training, a plain loop with PyTorch's AdamW."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from sut.contract import AsGiven, Batch, Call, Evidence, OnStep, Workload

Loss = Callable[[Any, Mapping[str, torch.Tensor]], torch.Tensor]
"""(the model, a batch) → its loss."""


class ReferenceTraining(AsGiven):
    """A model and its loss. Its methods are those of `sut.contract.Training`."""

    def __init__(self, model: Any, loss: Loss, workload: Workload):
        self.model = model.train()
        self.loss = loss
        self.device = workload.device
        trained = [p for p in model.parameters() if p.requires_grad]
        self.trainable = sum(p.numel() for p in trained)
        constants = workload.config["optimizer"]
        self.optimizer = torch.optim.AdamW(
            trained,
            lr=constants["learning_rate"],
            betas=(constants["beta_1"], constants["beta_2"]),
            eps=constants["epsilon"],
            weight_decay=constants["weight_decay"],
        )

    def fit(self, batches: Iterable[Batch], steps: int, on_step: OnStep) -> None:
        """Run forward, backward and the optimizer's step, one operator after the other."""
        for batch in batches:
            tensors = {
                name: torch.from_numpy(values).to(self.device) for name, values in batch.items()
            }
            loss = self.loss(self.model, tensors)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            on_step(loss.item)

    def freeze(self) -> None:
        """Set the learning rate to zero, so that steps change nothing."""
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0

    def synchronise(self) -> None:
        """Do nothing: no time is measured."""

    def evidence(self, call: Call) -> Evidence:
        """Return the dtype and the class of the model. A reference is not measured."""
        call()
        precision = str(next(self.model.parameters()).dtype).removeprefix("torch.")
        detail = {"call": type(self.model).__name__, "torch": torch.__version__}
        return Evidence(graphs=0, graph_breaks=None, precision=precision, detail=detail)


def cross_entropy(model: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the mean over the labels of a batch, which has one label a sample or one a token.
    PyTorch leaves out labels of -100.
    """
    ids = batch["input_ids"].long()
    mask = batch["attention_mask"].long()
    logits = model(input_ids=ids, attention_mask=mask).logits
    labels = batch["label"].long().flatten()
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2), labels)
