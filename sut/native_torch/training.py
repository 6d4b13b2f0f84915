"""Trains PyTorch's models in its usual loop. Transformers' own, `Trainer`, is not measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from sut.contract import Batch, Evidence, Workload
from sut.native_torch import execution


class TorchTraining:
    """A model whose answer has a `loss`, and PyTorch's AdamW. Its methods are those of `sut.contract.Training`.

    `prepare` is the method of this name.
    """

    def __init__(self, model: Any, workload: Workload, prepare: Callable[[Batch], Batch]):
        self.model, self.workload, self.prepare = model.train(), workload, prepare
        self.trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
        constants = workload.config["optimizer"]
        self.optimizer = torch.optim.AdamW(
            [p for p in model.parameters() if p.requires_grad],
            lr=constants["learning_rate"],
            betas=(constants["beta_1"], constants["beta_2"]),
            eps=constants["epsilon"],
            weight_decay=constants["weight_decay"],
        )
        self.sum, self.count = torch.zeros((), device=workload.device), 0

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

    def freeze(self) -> None:
        """The optimizer reads its learning rate at each step."""
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0

    def synchronise(self) -> None:
        """Wait for the device."""
        execution.synchronise(self.workload)

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """See `execution.evidence`."""
        return execution.evidence(self.model, self.workload, f"{type(self.model).__name__}.__call__, backward, AdamW.step", call)


def renamed(**names: str) -> Callable[[Batch], Batch]:
    """What prepares inputs for a model of Transformers: int64 under its names. `names`: each of them → ours."""
    return lambda inputs: {theirs: inputs[ours].astype(np.int64) for theirs, ours in names.items()}
