"""SUTs of Keras on PyTorch, each with one mistake: `python -m tests.broken.keras_torch
SPEC.json`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import torch

from sut.contract import Workload
from tests.broken import running
from tests.broken.keras import (
    EVERYWHERE,
    GENERATING,
    another_call_watched,
    call_in,
    layers,
    load,
    watched_twice,
)


def layer_compiled(w: Workload) -> Any:
    """One layer is compiled."""
    sut = load(w)
    call_in(
        layers(sut)[0]._feedforward_intermediate_dense,
        lambda own: torch.compile(own, backend="eager"),
    )
    return sut


def compiled_anew(w: Workload) -> Any:
    """One layer is compiled, and anew in each call."""
    sut = layer_compiled(w)
    own = sut.predict

    def predict(batch: Any) -> Any:
        torch._dynamo.reset()
        return own(batch)

    sut.predict = predict
    return sut


def traced_layer(w: Workload) -> Any:
    """One layer is traced by torch.jit."""
    sut = load(w)
    dense = sut.model.output_dense
    weights = dense.kernel.value.detach(), dense.bias.value.detach()
    product = torch.jit.trace(
        lambda x, kernel, bias: x @ kernel + bias, (torch.zeros(2, 64), *weights), check_trace=False
    )
    call_in(dense, lambda own: lambda x, **_: product(x, *weights))
    return sut


def autocast_around(w: Workload) -> Any:
    """predict runs under autocast."""
    return running.around(load(w), lambda: torch.autocast("cpu", torch.bfloat16))


@contextmanager
def _medium() -> Any:
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision("highest")


def medium_in_predict(w: Workload) -> Any:
    """predict lowers float32 products, and sets them back."""
    return running.around(load(w), _medium)


CASES: dict[str, dict[str, tuple[running.Case, ...]]] = {
    "keras3-torch": {
        "bert": (
            *EVERYWHERE,
            another_call_watched,
            watched_twice,
            layer_compiled,
            compiled_anew,
            traced_layer,
            autocast_around,
            medium_in_predict,
        ),
        "mistral": (*GENERATING, medium_in_predict),
    }
}

if __name__ == "__main__":
    running.main(CASES)
