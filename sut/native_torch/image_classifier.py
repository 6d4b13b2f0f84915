"""Classifiers of pictures of Transformers that answer the likeliest class. The compiled call also
subtracts the mean, divides by the deviation, and chooses the class.
"""

from __future__ import annotations

from typing import Any

import torch

from sut.contract import Batch, Workload
from sut.native_torch import execution


class _Classifier(torch.nn.Module):
    """uint8 pictures [batch, 3, height, width] → the likeliest class, int64 [batch, 1]."""

    def __init__(self, model: Any, workload: Workload):
        super().__init__()
        self.model = model
        self.config = model.config
        self.dtype = model.dtype
        for name in ("mean", "deviation"):
            values = torch.tensor(workload.config[name], dtype=torch.float32)
            self.register_buffer(name, values[:, None, None])

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        pixels = (pixel_values - self.mean) / self.deviation
        logits = self.model(pixel_values=pixels.to(self.dtype)).logits
        label: torch.Tensor = logits.argmax(-1, keepdim=True)
        return label


class TorchImageClassifier(execution.Predictor):
    """A classifier that answers classes. Its methods are those of `sut.contract.Inference`."""

    def prepare(self, inputs: Batch) -> Batch:
        """Return the pictures. The mean and the deviation are part of the model."""
        return {"pixel_values": inputs["pixel_values"]}


def load(workload: Workload) -> TorchImageClassifier:
    """The checkpoint's model, in the workload's precision and execution."""
    model = execution.load_model(workload, adapt=_Classifier)
    return TorchImageClassifier(model, workload, lambda label: {"label": label})
