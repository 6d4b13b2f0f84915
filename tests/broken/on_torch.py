"""What broken SUTs on PyTorch share, whatever their library is."""

from contextlib import contextmanager

import torch


def anew(sut):
    """predict resets Dynamo, so that each call compiles."""
    own = sut.predict

    def predict(batch):
        torch._dynamo.reset()
        return own(batch)

    sut.predict = predict
    return sut


def scripted_activation():
    """An activation that is a function of TorchScript."""

    @torch.jit.script
    def activation(x):
        return 0.5 * x * (1.0 + torch.erf(x * 0.7071067811865476))

    return activation


@contextmanager
def medium():
    """Products of float32 have a lower precision."""
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision("highest")
