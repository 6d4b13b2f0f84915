"""Trains the image encoder of Meta's library towards features, by their mean squared error; see `training`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from sut.contract import Workload
from sut.native_torch import sam
from sut.native_torch.training import TorchTraining


class Encoder(torch.nn.Module):
    """Meta's image encoder behind its preprocessing."""

    def __init__(self, segmenter: Any):
        super().__init__()
        self.encoder = segmenter.image_encoder
        self.preprocess = [segmenter.preprocess]  # in a list, or the rest of the segmenter would be a part of this module

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """images [batch, 3, side, side] → features [batch, channels, grid, grid]."""
        features: torch.Tensor = self.encoder(self.preprocess[0](images).to(self.encoder.pos_embed.dtype))
        return features


def load(workload: Workload) -> TorchTraining:
    """The checkpoint's encoder, in the workload's precision and execution, to be trained."""
    return TorchTraining(Encoder(sam.load(replace(workload, execution="eager")).model.sam), workload)
