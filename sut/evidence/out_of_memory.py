"""The number of bytes that a framework requested, from its out-of-memory error."""

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
    size = _BYTES.search(text)
    if size:
        number, unit = size.groups()
        return round(float(number) * _UNITS[unit])
    tensor = _TENSOR.search(text)
    if tensor is None or tensor[2] not in _ITEM_BYTES:
        return None
    shape = map(int, tensor[1].split(","))
    return math.prod(shape) * _ITEM_BYTES[tensor[2]]
