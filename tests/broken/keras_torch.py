"""SUTs of Keras on PyTorch, each with one mistake: `python -m tests.broken.keras_torch
SPEC.json`.
"""

from contextlib import contextmanager

import torch

from tests.broken import running
from tests.broken.keras import (
    EVERYWHERE,
    GENERATING,
    another_call_watched,
    call_in,
    float16_policy,
    layers,
    load,
    watched_twice,
)


def layer_compiled(w):
    """One layer is compiled."""
    sut = load(w)
    call_in(
        layers(sut)[0]._feedforward_intermediate_dense,
        lambda own: torch.compile(own, backend="eager"),
    )
    return sut


def compiled_anew(w):
    """One layer is compiled, and anew in each call."""
    sut = layer_compiled(w)
    own = sut.predict

    def predict(batch):
        torch._dynamo.reset()
        return own(batch)

    sut.predict = predict
    return sut


def scripted_function(w):
    """The activation is a scripted function."""
    sut = load(w)

    @torch.jit.script
    def activation(x):
        return 0.5 * x * (1.0 + torch.erf(x * 0.7071067811865476))

    for layer in layers(sut):
        layer._feedforward_intermediate_dense.activation = activation
    return sut


def traced_layer(w):
    """One layer is traced by torch.jit."""
    sut = load(w)
    dense = sut.model.output_dense
    weights = dense.kernel.value.detach(), dense.bias.value.detach()
    product = torch.jit.trace(
        lambda x, kernel, bias: x @ kernel + bias, (torch.zeros(2, 64), *weights), check_trace=False
    )
    call_in(dense, lambda own: lambda x, **_: product(x, *weights))
    return sut


def autocast_around(w):
    """predict runs under autocast."""
    return running.around(load(w), lambda: torch.autocast("cpu", torch.bfloat16))


@contextmanager
def _medium():
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision("highest")


def medium_in_predict(w):
    """predict lowers float32 products, and sets them back."""
    return running.around(load(w), _medium)


CASES = {
    "keras3-torch": {
        "bert": (
            *EVERYWHERE,
            another_call_watched,
            watched_twice,
            float16_policy,
            layer_compiled,
            compiled_anew,
            scripted_function,
            traced_layer,
            autocast_around,
            medium_in_predict,
        ),
        "mistral": (*GENERATING, medium_in_predict),
    }
}

if __name__ == "__main__":
    running.main(CASES)
