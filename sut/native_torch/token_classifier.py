"""Classifiers of tokens of Transformers. Their answers are logits [batch, length, classes]."""

from sut.native_torch.execution import load_predictor as load

__all__ = ["load"]
