"""The reference of training Segment Anything's image encoder: Meta's encoder towards features, by their mean squared error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from sut.contract import Workload
from sut.reference import sam
from sut.reference.training import ReferenceTraining


def _loss(model: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """`image` [batch, side, side, 3], `label` [batch, grid, grid, channels]. Meta's encoder has channels first."""
    features = model.image_encoder(model.preprocess(255 * batch["image"].permute(0, 3, 1, 2)))
    return torch.nn.functional.mse_loss(features, batch["label"].permute(0, 3, 1, 2))


def load(workload: Workload) -> ReferenceTraining:
    """The checkpoint's model, whose image encoder alone is trained."""
    model = sam.Reference(workload).model
    model.requires_grad_(False)
    model.image_encoder.requires_grad_(True)
    return ReferenceTraining(model, _loss, workload)
