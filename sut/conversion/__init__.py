"""Conversions of weights of other forms to a Hugging Face folder."""

from __future__ import annotations


class Lost(Exception):
    """The error for weights that would end as another model. The message is a whole sentence."""
