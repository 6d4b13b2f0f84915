"""Trains image encoders by PyTorch's usual loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from sut.contract import Batch, Call, Evidence, OnStep, Workload
from sut.native_torch import compiled, execution


class MeanLoss:
    """Sums up losses on their device, so that no step waits for the device. A call returns the mean
    of the losses since the last call.
    """

    def __init__(self, device: str | torch.device):
        self.sum = torch.zeros((), device=device)
        self.count = 0

    def add(self, loss: torch.Tensor) -> None:
        """Add one loss."""
        self.sum += loss.detach().float()
        self.count += 1

    def __call__(self) -> float:
        mean = self.sum.item() / self.count
        self.sum.zero_()
        self.count = 0
        return mean


def parameters(model: torch.nn.Module) -> Iterator[np.ndarray]:
    """Yield the trained parameters, float32."""
    for each in model.parameters():
        if each.requires_grad:
            yield each.detach().float().cpu().numpy()


class TowardsFeatures(torch.nn.Module):
    """An image encoder with its loss: the mean squared error between its outputs and features."""

    def __init__(self, encoder: torch.nn.Module):
        super().__init__()
        self.encoder = encoder

    def forward(self, images: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """images [batch, 3, side, side], features [batch, channels, height, width] → the loss."""
        return torch.nn.functional.mse_loss(self.encoder(images).float(), features)


class TorchTraining(execution.OnDevice):
    """An image encoder that is trained towards features by PyTorch's AdamW. Its methods are those
    of `sut.contract.Training`.

    `versions`: versions of more libraries, by name.
    """

    def __init__(self, encoder: torch.nn.Module, workload: Workload, **versions: str):
        self.model = TowardsFeatures(encoder).to(workload.device).train()
        self.workload = workload
        self.versions = versions
        if workload.execution == "compile":
            compiled.check_compiler(workload.device)
            compiled.compile_forward(self.model, workload.settings)
        self.trainable = sum(p.numel() for p in self.model.parameters())
        constants = workload.config["optimizer"]
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=constants["learning_rate"],
            betas=(constants["beta_1"], constants["beta_2"]),
            eps=constants["epsilon"],
            weight_decay=constants["weight_decay"],
        )
        self.mean_loss = MeanLoss(workload.device)

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs with channels first, as PyTorch's encoders take them."""
        return {
            "images": inputs["image"].transpose(0, 3, 1, 2),
            "features": inputs["label"].transpose(0, 3, 1, 2),
        }

    def parameters(self) -> Iterator[np.ndarray]:
        """See `parameters`."""
        return parameters(self.model)

    def fit(self, batches: Iterable[Batch], steps: int, on_step: OnStep) -> None:
        """Run the loop of PyTorch's tutorials."""
        for batch in batches:
            loss = self.model(**execution.on_device(batch, self.workload))
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.mean_loss.add(loss)
            on_step(self.mean_loss)

    def freeze(self) -> None:
        """Set the learning rate to zero. The optimizer reads it at each step."""
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0

    def evidence(self, call: Call) -> Evidence:
        """See `execution.evidence`."""
        name = f"{type(self.model.encoder).__name__}.__call__, backward, AdamW.step"
        return execution.evidence(self.model, self.workload, name, call, **self.versions)
