"""Runs in the environment of native torch: profiles BERT as it is, and slowed down on purpose.

`python -m tests.sut.profile_cases SPEC.json` writes profiles.json next to the specification.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scenarios.worker import profile
from sut.contract import Workload
from sut.evidence import torch_timeline, wall_time
from sut.native_torch import bert

STEPS, ROWS, LENGTH = 3, 32, 128
COPIED = 1 << 21  # elements that each layer copies


def honest(workload: Workload) -> Any:
    return bert.load(workload)


def copies_in_each_layer(workload: Workload) -> Any:
    """Each layer copies an array, whose values nothing depends on."""
    sut = bert.load(workload)
    ballast = torch.ones(COPIED)
    for layer in sut.model.bert.encoder.layer:
        layer.register_forward_hook(_copying(ballast))
    return sut


def _copying(ballast: torch.Tensor) -> Callable[..., None]:
    def copy(*_: Any) -> None:
        ballast.clone()

    return copy


def norms_in_float64(workload: Workload) -> Any:
    """Each norm computes in float64."""
    sut = bert.load(workload)
    for module in sut.model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.forward = _in_float64(module)
    return sut


def _in_float64(norm: torch.nn.LayerNorm) -> Callable[[torch.Tensor], torch.Tensor]:
    weight, bias = norm.weight.double(), norm.bias.double()

    def forward(x: torch.Tensor) -> torch.Tensor:
        wide = torch.nn.functional.layer_norm(
            x.double(), norm.normalized_shape, weight, bias, norm.eps
        )
        return wide.to(x.dtype)

    return forward


CASES = (honest, copies_in_each_layer, norms_in_float64)


def main(specification: Path) -> None:
    fields = json.loads(specification.read_text())
    workload = Workload(**{**fields, "checkpoint": Path(fields["checkpoint"])})
    ids = np.random.default_rng(0).integers(3, 1000, (ROWS, LENGTH)).astype(np.int32)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    found = {}
    for case in CASES:
        sut = case(workload)
        batch = sut.prepare(inputs)
        sut.predict(batch)
        trace = torch_timeline.record(
            lambda window, sut=sut, batch=batch: profile.answer(sut, batch, STEPS, window)
        )
        found[case.__name__] = asdict(wall_time.divided(trace, STEPS, 1.0))
    (specification.parent / "profiles.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
