"""The reference of training language models by LoRA, which is written out."""

from __future__ import annotations

from typing import Any

import torch

from sut import adapters
from sut.contract import Workload
from sut.reference import library
from sut.reference.training import ReferenceTraining, cross_entropy
from sut.registry import PER_HEAD


class Adapted(torch.nn.Module):
    """A frozen product of x with weights, and beside it that of x with the factors `a` and `b`, which are trained."""

    def __init__(self, frozen: Any, a: torch.Tensor, b: torch.Tensor, scale: float, per_head: bool):
        super().__init__()
        self.frozen, self.scale, self.per_head = frozen, scale, per_head
        self.a, self.b = torch.nn.Parameter(a), torch.nn.Parameter(b)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [batch, length, in] → [batch, length, out]."""
        added = torch.einsum("bti,nir,rh->btnh", x, self.a, self.b).flatten(2) if self.per_head else x @ self.a.T @ self.b.T
        return self.frozen(x) + self.scale * added


def load(workload: Workload) -> ReferenceTraining:
    """The checkpoint's language model with LoRA's factors, which alone are trained."""
    model, lora, config = library.load_model(workload, attention_dropout=0.0), workload.config["lora"], workload.config["model"]
    model.requires_grad_(False)
    for number, layer in enumerate(model.model.layers):
        for name in adapters.LAYERS:
            a, (_, shape) = adapters.first(config, lora, number, name), adapters.shapes(config, lora, name)
            factors = torch.from_numpy(a).to(workload.device), torch.zeros(shape, device=workload.device)
            adapted = Adapted(getattr(layer.self_attn, name), *factors, lora["alpha"] / lora["rank"], lora["factors"] == PER_HEAD)
            setattr(layer.self_attn, name, adapted)
    return ReferenceTraining(model, cross_entropy, workload)
