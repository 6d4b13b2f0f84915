"""This module reads the requested number of bytes from a framework's out-of-memory error."""

from __future__ import annotations

import math
import re

_BYTES = re.compile(r"alloc\w*\D{0,40}?([\d.]+) ?(bytes|B|[KMGT]iB)\b")
_UNITS = {"bytes": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
# TensorFlow names no bytes: "OOM when allocating tensor with shape[8,4] and type float".
_TENSOR = re.compile(r"shape\[([\d,]+)\] and type (\w+)")
_ITEM_BYTES = {"double": 8, "int64": 8, "float": 4, "int32": 4, "bfloat16": 2, "half": 2, "bool": 1}


def asked_bytes(text: str) -> int | None:
    """Return the bytes that one line of an error names. None: it names no bytes."""
    if found := _BYTES.search(text):
        return round(float(found[1]) * _UNITS[found[2]])
    if (found := _TENSOR.search(text)) and found[2] in _ITEM_BYTES:
        return math.prod(map(int, found[1].split(","))) * _ITEM_BYTES[found[2]]
    return None
