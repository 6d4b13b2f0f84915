"""The operations of PyTorch that `doctor --limits` measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sut.contract import Unsupported
from sut.evidence import torch_products
from sut.limits.framework import Run

_ONEDNN = "oneDNN"
_device = ["cpu"]


def configure(device: str) -> None:
    """See `Framework.configure`. Nothing records gradients."""
    if device == "cuda" and not torch.cuda.is_available():
        raise Unsupported(f"--device {device}: this PyTorch sees no CUDA device")
    torch.set_grad_enabled(False)
    _device[:] = [device]


def version() -> str:
    """Return the framework's version."""
    return torch.__version__


def use(precision: str) -> None:
    """See `Framework.use`."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def wait(result: Any) -> None:
    """Wait for the GPU; a CPU is done on return."""
    if _device[0] != "cpu":
        torch.cuda.synchronize()


def product(precision: str, rows: int, inner: int, columns: int) -> Run:
    """Return `linear`. Its weight requires a gradient, as that of a model: otherwise bfloat16
    `linear` of torch 2.13 on a CPU clones the weight at each call.
    """
    values = _random(precision, rows, inner)
    weight = _random(precision, columns, inner).requires_grad_()
    return lambda: torch.nn.functional.linear(values, weight)


def other_products(precision: str, side: int) -> Mapping[str, Run]:
    """Return oneDNN's product if `linear` uses another library on this processor.

    The operator and the order of its weight are those of Inductor with frozen weights.
    """
    is_host = _device[0] == "cpu"
    if not is_host or not torch.backends.mkldnn.is_available() or precision != "float32":
        return {}
    if torch_products.about("cpu", _dtype(precision), {})["library"] == _ONEDNN:
        return {}
    values = _random(precision, side, side)
    weight = torch.ops.mkldnn._reorder_linear_weight(_random(precision, side, side), side)
    multiply = torch.ops.mkldnn._linear_pointwise
    return {_ONEDNN: lambda: multiply(values, weight, None, "none", [], "")}


def about_products(precision: str, run: Run) -> Mapping[str, Any]:
    """See `Framework.about_products`."""
    return torch_products.about(_device[0], _dtype(precision), {})


def reads(rows: int, columns: int) -> Sequence[tuple[Run, int]]:
    """Return sums of the rows and of the columns."""
    array = _random("float32", rows, columns)
    return [
        (lambda: array.sum(dim=1), array.nbytes),
        (lambda: array.sum(dim=0), array.nbytes),
    ]


def _random(precision: str, rows: int, columns: int) -> torch.Tensor:
    return torch.rand((rows, columns), dtype=_dtype(precision), device=_device[0])


def _dtype(precision: str) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, "float32" if precision == "tf32" else precision)
    return dtype
