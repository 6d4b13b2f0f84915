"""BERT-like classifiers."""

from sut.hf_tensorflow.library import load

__all__ = ["load"]
