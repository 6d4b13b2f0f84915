"""SUTs of Keras on PyTorch, each with one mistake: `python -m tests.broken.keras_torch
SPEC.json`.
"""

import torch

from tests.broken import keras, on_torch, running
from tests.broken.keras import call_in, layers, load


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
    return on_torch.anew(layer_compiled(w))


def scripted_function(w):
    """The activation is a scripted function."""
    sut, activation = load(w), on_torch.scripted_activation()
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


def medium_in_predict(w):
    """predict lowers float32 products, and sets them back."""
    return running.around(load(w), on_torch.medium)


if __name__ == "__main__":
    running.main({**vars(keras), **globals()})
