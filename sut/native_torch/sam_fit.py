"""Trains the image encoder of Meta's library towards features, by their mean squared error; see `training`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch

from sut.contract import Batch, Workload
from sut.native_torch import compiled, sam
from sut.native_torch.training import TorchTraining


class Answer(NamedTuple):
    """What a training step looks at."""

    loss: torch.Tensor


class Encoder(torch.nn.Module):
    """Meta's image encoder behind its preprocessing."""

    def __init__(self, segmenter: Any):
        super().__init__()
        self.encoder = segmenter.image_encoder
        self.preprocess = [segmenter.preprocess]  # in a list, or the rest of the segmenter would be a part of this module

    def forward(self, images: torch.Tensor, features: torch.Tensor) -> Answer:
        """images [batch, 3, side, side], features [batch, channels, grid, grid]."""
        found = self.encoder(self.preprocess[0](images).to(self.encoder.pos_embed.dtype))
        return Answer(torch.nn.functional.mse_loss(found.float(), features))


def _prepare(inputs: Batch) -> Batch:
    """Channels first, as Meta's encoder has them."""
    return {"images": inputs["image"].transpose(0, 3, 1, 2), "features": inputs["label"].transpose(0, 3, 1, 2)}


def load(workload: Workload) -> TorchTraining:
    """The checkpoint's encoder, in the workload's precision and execution, to be trained."""
    model = Encoder(sam.load(replace(workload, execution="eager")).model.sam)
    if workload.execution == "compile":
        compiled.check_compiler(workload.device)
        compiled.compile_forward(model)
    return TorchTraining(model, workload, _prepare)
