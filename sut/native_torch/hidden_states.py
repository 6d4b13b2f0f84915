"""Models of Transformers without a head. The measured call is the model's own `__call__`."""

from sut.native_torch.execution import load_predictor as load

__all__ = ["load"]
