"""The reference for classifiers of tokens. Its answers are logits [batch, length, classes]."""

from sut.reference.library import load

__all__ = ["load"]
