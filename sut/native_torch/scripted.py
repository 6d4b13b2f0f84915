"""The script execution makes a TorchScript trace of the code that the measured call enters. It
raises an error instead of running eagerly.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch

from sut.contract import Unsupported


def trace_forward(
    model: torch.nn.Module, example: Mapping[str, torch.Tensor], settings: Mapping[str, str]
) -> None:
    """Replace the model's own forward by traces, which `__call__` enters.

    Args:
        example: one row of inputs, by which a first trace is made.
        settings: those of the switches of `--tuned`.

    Raises Unsupported, with the tracer's message, if the tracer cannot follow the model.
    """
    traces = Traces(model, settings.get("optimize-for-inference") == "on")
    parameter = next(model.parameters())
    try:
        traces.make({name: _like(tensor, parameter) for name, tensor in example.items()})
    except Exception as e:  # any error of the model's code on the tracer's inputs
        raise Unsupported(
            f"torch.jit.trace cannot follow {type(model).__name__}: {type(e).__name__}:"
            f" {_first_line(e)}"
        ) from e


def _like(tensor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Return the tensor on the device of a parameter, floats in its dtype."""
    dtype = parameter.dtype if tensor.is_floating_point() else tensor.dtype
    return tensor.to(parameter.device, dtype)


class Traces:
    """A model's forward as TorchScript. Each shape of inputs has its own trace, because a trace may
    contain a shape as a constant.
    """

    def __init__(self, model: torch.nn.Module, optimised: bool):
        """`optimised`: whether traces are frozen and use the libraries of this build of torch."""
        self.model = model
        self.optimised = optimised
        self.by_shape: dict[tuple[torch.Size, ...], Any] = {}

    def __call__(self, **inputs: torch.Tensor) -> SimpleNamespace:
        """Return the model's answers by name. Inputs of new shapes are traced first."""
        shape = tuple(tensor.shape for tensor in inputs.values())
        if shape not in self.by_shape:
            self.by_shape[shape] = self.make(inputs)
        return SimpleNamespace(**self.by_shape[shape](**inputs))

    def make(self, inputs: Mapping[str, torch.Tensor]) -> Any:
        """Return a trace of these inputs, which has run often enough to be optimised."""
        vars(self.model).pop("forward", None)  # the tracer follows the class's own
        try:
            with torch.no_grad():
                trace = torch.jit.trace(
                    self.model, example_kwarg_inputs=dict(inputs), strict=False, check_trace=False
                )
                if self.optimised:
                    trace = torch.jit.optimize_for_inference(trace)
                for _ in range(2):
                    # TorchScript profiles the first call, and optimises before the second.
                    trace(**inputs)
        finally:
            setattr(self.model, "forward", self)  # noqa: B010  a method of a class is replaced on purpose
        return trace


def modules(model: torch.nn.Module) -> int:
    """Return the number of TorchScript modules within the model. PYTORCH_JIT=0 makes them ordinary
    modules.
    """
    if not torch.jit._state._enabled:
        return 0
    return sum(isinstance(each, torch.jit.ScriptModule) for each in model.modules())


def traces(model: torch.nn.Module) -> list[Any]:
    """Return the traces in the model's forward."""
    return list(model.forward.by_shape.values()) if isinstance(model.forward, Traces) else []


def count(model: torch.nn.Module) -> int:
    """Return the number of traces in the model's forward. 0 if it is not traced."""
    return len(traces(model))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no message"
