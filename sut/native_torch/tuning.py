"""What the switches of `--tuned` change in a model of native torch (`sut/tuning.toml`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import torch
from torch.utils.mkldnn import to_mkldnn

from sut.contract import Workload
from sut.evidence import matrix_rate
from sut.native_torch import compiled

_ON = "on"


def set_globally(workload: Workload) -> None:
    """Set torch's global switches."""
    if workload.settings.get("cudnn-benchmark") == _ON:
        torch.backends.cudnn.benchmark = True


def adapted(model: torch.nn.Module, workload: Workload) -> torch.nn.Module:
    """Return the model with the layout and the layers that the switches request."""
    if workload.settings.get("memory-format") == "channels-last":
        model = model.to(memory_format=torch.channels_last)
    if workload.settings.get("to-mkldnn") == _ON:
        model = to_mkldnn(model, getattr(torch, workload.dtype))
    return model


def settings(model: torch.nn.Module, workload: Workload) -> dict[str, str]:
    """Return the settings of all switches as torch and the model have them, whatever was requested.
    A setting that neither shows is left out.
    """
    facts = {
        "cudnn-benchmark": torch.backends.cudnn.benchmark,
        "to-mkldnn": any(True for _ in packed_weights(model)),
    }
    found = {name: _ON for name, is_on in facts.items() if is_on}
    pictures = [weight for weight in model.parameters() if weight.ndim == 4]
    last = [each.is_contiguous(memory_format=torch.channels_last) for each in pictures]
    if pictures and all(last):
        found["memory-format"] = "channels-last"
    is_compiled = workload.execution == "compile"
    return found | (compiled.settings(model) if is_compiled else {})


def packed_weights(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield the weights that `to_mkldnn` packed, which are no parameters any more."""
    for buffer in model.buffers():
        if buffer.is_mkldnn:
            yield buffer


def matrix_flops(workload: Workload, dtype: torch.dtype, usual: float) -> float:
    """Return the floating-point operations a second of a large product of the fastest library that
    a tuned model may use.

    Args:
        usual: the rate of torch's own product of two matrices.
    """
    if not workload.switches or workload.device != "cpu":
        return usual
    packed = _packed_flops(dtype)
    return usual if packed is None else max(usual, packed)


@cache
def _packed_flops(dtype: torch.dtype) -> float | None:
    """Return the rate of oneDNN. None if it cannot multiply this dtype on this processor."""
    # A rate that is known from an earlier repeat is that of the fastest library.
    try:
        return matrix_rate.measure(lambda side: _packed_product(side, dtype))
    except RuntimeError:
        return None


def _packed_product(side: int, dtype: torch.dtype) -> Callable[[], object]:
    """Return a function that multiplies two matrices by oneDNN."""
    a = torch.rand((side, side), dtype=dtype).to_mkldnn()
    bias = torch.zeros(side).to_mkldnn()
    return lambda: torch._C._nn.mkldnn_linear(a, a, bias)
