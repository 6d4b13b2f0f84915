"""SUTs of native torch, each slowed down on purpose. Their answers are right."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from sut.contract import Workload
from sut.native_torch import bert

COPIED = 1 << 23  # elements that each layer copies
NORMS = 50  # how often each norm computes, so that its time is most of the step


def copies_in_each_layer(workload: Workload) -> Any:
    """Each layer waits for a thread that copies an array. No answer depends on its values."""
    sut = bert.load(workload)
    ballast = torch.ones(COPIED)
    pool = ThreadPoolExecutor(1)
    for layer in sut.model.bert.encoder.layer:
        layer.register_forward_hook(_copying(pool, ballast))
    return sut


def _copying(pool: ThreadPoolExecutor, ballast: torch.Tensor) -> Callable[..., None]:
    def copy(*_: Any) -> None:
        pool.submit(ballast.clone).result()

    return copy


def norms_in_float64(workload: Workload) -> Any:
    """Each norm computes in float64, several times."""
    sut = bert.load(workload)
    for module in sut.model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            setattr(module, "forward", _in_float64(module))  # noqa: B010, replaced on purpose
    return sut


def _in_float64(norm: torch.nn.LayerNorm) -> Callable[[torch.Tensor], torch.Tensor]:
    weight, bias = norm.weight.double(), norm.bias.double()

    def forward(x: torch.Tensor) -> torch.Tensor:
        wide = x.double()
        for _ in range(NORMS):
            normed = torch.nn.functional.layer_norm(
                wide, norm.normalized_shape, weight, bias, norm.eps
            )
        return normed.to(x.dtype)

    return forward
