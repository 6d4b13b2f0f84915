"""The reference for models of pictures."""

from sut.reference.library import load

__all__ = ["load"]
