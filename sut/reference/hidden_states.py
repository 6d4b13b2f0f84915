"""The reference for models without a head."""

from sut.reference.library import load

__all__ = ["load"]
