"""Keras on PyTorch. It runs eagerly, which is Keras' own default."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import keras
import numpy as np
import torch

from sut.contract import Call, Unsupported
from sut.evidence import torch_products, torch_profile

EXECUTIONS = ("eager",)
RUNS_AHEAD = False  # see `on_jax`
_COUNTS = (
    "operators",
    "operators_called",
    "regions",
    "script_calls",
    "forward_passes",
    "integer_products",
    "table_lookups",
)
_scope = ExitStack()


def configure(device: str, wanted: str) -> None:
    """Choose the device and the precision of float32 products. Raises Unsupported if torch sees no
    such device.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise Unsupported(
            "--device cuda: this PyTorch sees no CUDA device (a CPU build, no driver or no GPU);"
            " --device cpu runs"
        )
    if device == "cuda" and not keras.ops.zeros(()).is_cuda:
        raise Unsupported(
            "--device cuda: Keras puts its tensors elsewhere, because KERAS_TORCH_DEVICE says so:"
            " unset it"
        )
    if device == "cpu":
        # Keras would use a GPU if there is one. This setting stays in force until the process ends.
        _scope.enter_context(keras.device("cpu"))
    torch.set_float32_matmul_precision("high" if wanted == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = wanted == "tf32"


def synchronise(model: Any) -> None:
    """Wait for the GPU; a CPU is done on return."""
    if model.weights[0].value.is_cuda:
        torch.cuda.synchronize()


def compiled(
    model: Any, function: Callable[[Any, Any], Any]
) -> Callable[[], Callable[[Any, Any], Any]]:
    """Return a function that returns `function` (arguments, state) of this model. It runs eagerly,
    without gradients.
    """
    return lambda: torch.no_grad()(function)


def product(dtype: str) -> np.ndarray:
    """Return a probe product in `dtype`, as float32."""
    return torch_profile.probe(keras.ops.zeros(()).device, getattr(torch, dtype))


def matrix_flops(dtype: str) -> float:
    """See `Evidence.matrix_flops`."""
    return torch_profile.matrix_flops(str(keras.ops.zeros(()).device), getattr(torch, dtype))


def watch(model: Any, call: Call) -> dict[str, Any]:
    """Return torch's observations of the call. `graphs`: graphs that Dynamo captured in this
    process. The profiler counts the rest in the call (`torch_profile.COUNTS`). `forward_passes`:
    entries into one layer.
    """
    weight = model.weights[0].value
    trains = model.optimizer is not None
    seen = torch_profile.observe(
        model, call, weight.device, weight.dtype, _layer_hooks, gradients=trains
    )
    return {
        "graphs": torch_profile.dynamo_graphs(),
        **seen.detail(_COUNTS),
        "matrix_products": torch_products.about(
            str(weight.device), weight.dtype, seen.product_operators
        ),
    }


@contextmanager
def _layer_hooks(
    model: Any, before: Callable[..., None], after: Callable[..., None]
) -> Iterator[None]:
    """A context with hooks around the `call` of the first layer that has its own weights. Keras'
    `__call__` runs no hooks of torch, and that of a quantised layer does not run `call`.
    """
    layers = (each for each in model._flatten_layers() if each._trainable_variables)
    layer = next(each for each in layers if each.quantization_mode is None)
    own = layer.call

    def call(*args: Any, **named: Any) -> Any:
        before()
        try:
            return own(*args, **named)
        finally:
            after()

    layer.call = call
    try:
        yield
    finally:
        layer.call = own


def peak_device_bytes(device: str) -> int | None:
    """Return the most bytes used on the GPU; None on a CPU."""
    return torch_profile.peak_device_bytes(device)


def about() -> dict[str, Any]:
    """Return versions, device and settings, for the evidence."""
    return {
        "float32_matmul_precision": torch_profile.matmul_setting(),
        "device": torch.cuda.get_device_name() if keras.ops.zeros(()).is_cuda else "cpu",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
