"""A lossless byte-level tokenizer, for where the user brings none: every UTF-8 text is its bytes, and back.

ids: 0 padding, 1 beginning, 2 end, then byte + 3, as ByT5 has it (Xue et al. 2021, "ByT5: Towards a token-free future", section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterable

PAD, BEGIN, END = 0, 1, 2
_OFFSET = 3
VOCABULARY = 256 + _OFFSET


def encode(text: str) -> list[int]:
    return [byte + _OFFSET for byte in text.encode("utf-8")]


def decode(ids: Iterable[int]) -> str:
    """Special and other ids are left out; bytes that are no UTF-8 become U+FFFD (a model may well generate such)."""
    return bytes(i - _OFFSET for i in ids if _OFFSET <= i < VOCABULARY).decode("utf-8", errors="replace")
