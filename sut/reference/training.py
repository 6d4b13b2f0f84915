"""The reference for every training: a plain loop with PyTorch's AdamW, which computes as
the SUT's does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from sut.contract import Batch, Call, Evidence, OnStep, Workload
from sut.reference.untimed import Untimed

Loss = Callable[[Any, Mapping[str, torch.Tensor]], torch.Tensor]
"""(the model, a batch) → its loss."""


_ROUNDING = 1e-5
"""The part of the largest root mean square of a gradient from which a gradient is more than
rounding. In bert tiny those of a key's bias have 1e-8 of it, and all others 1e-3 and more.
"""


class ReferenceTraining(Untimed):
    """A model and its loss. Its methods are those of `sut.contract.Training`."""

    def __init__(self, model: Any, loss: Loss, workload: Workload):
        self.model = model.train()
        self.loss = loss
        self.device = workload.device
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.trainable = sum(p.numel() for p in self.trained)
        self.steps = 0
        self.squares = [0.0] * len(self.trained)
        self.constants = constants = workload.config["optimizer"]
        self.adamw = workload.config["adamw"]
        self.optimizer = torch.optim.AdamW(
            self.trained,
            lr=constants["learning_rate"],
            betas=(constants["beta_1"], constants["beta_2"]),
            eps=constants["epsilon"],
            weight_decay=0.0 if self.adamw == "keras" else constants["weight_decay"],
        )
        self.optimizer.register_step_pre_hook(self._begin_update)

    def parameters(self) -> Iterator[np.ndarray]:
        """Yield the trained parameters."""
        for each in self.trained:
            yield each.detach().cpu().numpy()

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

    def noise(self) -> list[bool]:
        """Return for each parameter whether its gradient is only rounding, as that of a key's bias,
        which is 0. AdamW makes updates of any size of such a gradient.
        """
        least = _ROUNDING**2 * max(self.squares)
        return [square < least for square in self.squares]

    def _begin_update(self, *_: Any) -> None:
        """Add up the squares of the gradients. Set the epsilon that PyTorch adds after the
        correction of the second moment to what Keras adds before it, and decay the weights as Keras
        does (`sut.registry.adamw_of`). As a hook of the optimizer it does not count as work.
        """
        self.steps += 1
        for number, each in enumerate(self.trained):
            if each.grad is not None:
                self.squares[number] += float(each.grad.square().mean())
        constants = self.constants
        correction = math.sqrt(1 - constants["beta_2"] ** self.steps)
        for group in self.optimizer.param_groups:
            if self.adamw.startswith("keras"):
                group["eps"] = constants["epsilon"] / correction
            for parameter in group["params"] if self.adamw == "keras" else ():
                decay = parameter.detach() * constants["weight_decay"] * group["lr"]
                parameter.data.sub_(decay)

    def freeze(self) -> None:
        """Set the learning rate to zero, so that steps change nothing."""
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0

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
