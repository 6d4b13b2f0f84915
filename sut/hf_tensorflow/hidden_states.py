"""Models without a head."""

from sut.hf_tensorflow.library import load

__all__ = ["load"]
