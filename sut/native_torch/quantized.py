"""Weights of 8 bits by PyTorch's own dynamic quantisation, for a CPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch.ao.nn.quantized import dynamic
from torch.ao.quantization import quantize_dynamic

from sut.contract import Unsupported, Workload
from sut.registry import QUANTIZE


def adapted(model: torch.nn.Module, workload: Workload) -> torch.nn.Module:
    """Return the model with quantised linear layers, if the workload requests it. Raises
    Unsupported if PyTorch has none for its device or precision, or if nothing could be quantised.
    """
    if QUANTIZE not in workload.options:
        return model
    if workload.device != "cpu" or workload.precision != "float32":
        raise Unsupported(
            f"--sut-option {QUANTIZE}: PyTorch's dynamic quantisation runs on a CPU, in float32:"
            " take --device cpu --precision float32"
        )
    with warnings.catch_warnings(action="ignore"):  # it is deprecated
        changed: torch.nn.Module = quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    if not any(True for _ in weights(changed)):
        raise Unsupported(
            f"--sut-option {QUANTIZE}: {type(model).__name__} has no torch.nn.Linear, and"
            " torch.ao.quantization.quantize_dynamic quantises nothing else here"
        )
    return changed


def weights(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield the quantised weights, which are no parameters."""
    for module in model.modules():
        if isinstance(module, dynamic.Linear):
            yield module.weight()
