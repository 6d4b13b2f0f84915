"""Converts the bytes of one sample's answer to arrays. `scenarios/worker/queries/answers.py` packs
them, and a test checks that the two modules agree.

The arrays follow each other in the order of the answer's keys, each C-contiguous in the machine's
byte order. A boolean array is bit-packed: eight values a byte, the first in the highest bit. Its
last byte is filled up with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from compliance.logs.answers import Payloads
from compliance.scoring.value import AnswerBytes


def values(
    answers: AnswerBytes, index: int, dtype: type[np.generic], count: int | None = None
) -> np.ndarray:
    """The answer of one sample, [count]. Raises ValueError if its bytes are not `count` values, or
    not whole values.
    """
    data = answers[index]
    size = np.dtype(dtype).itemsize
    expected = ""
    if count is not None and len(data) != count * size:
        expected = f"{count * size} bytes"
    elif len(data) % size:
        expected = f"whole {np.dtype(dtype).name} values"
    if expected:
        raise ValueError(f"the answer of sample {index} has {len(data)} bytes, expected {expected}")
    return np.frombuffer(data, dtype)


def matrix(answers: AnswerBytes, samples: int, dtype: type[np.generic], count: int) -> np.ndarray:
    """The answers of the samples from 0 to `samples` - 1, [samples, count]. Raises ValueError as
    `values` does.
    """
    rows = answers.rows(count * np.dtype(dtype).itemsize) if isinstance(answers, Payloads) else None
    if rows is not None and len(rows) == samples:
        return rows.view(dtype)
    found = np.empty((samples, count), dtype)
    for index in range(samples):
        found[index] = values(answers, index, dtype, count)
    return found


def split(
    answers: AnswerBytes, index: int, like: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The arrays of one sample's answer, by name.

    Args:
        like: arrays of one sample, in payload order, with the names, dtypes and shapes of the
            answer's arrays.

    Raises ValueError if the answer has another number of bytes.
    """
    data = answers[index]
    start = 0
    arrays = {}
    sizes = {name: _bytes(array) for name, array in like.items()}
    if len(data) != sum(sizes.values()):
        parts = []
        for name, array in like.items():
            parts.append(f"{sizes[name]} of {name} {array.dtype.name} {list(array.shape)}")
        expected = " and ".join(parts)
        raise ValueError(f"the answer of sample {index} has {len(data)} bytes, expected {expected}")
    for name, array in like.items():
        part = np.frombuffer(data, np.uint8, sizes[name], start)
        if array.dtype == bool:
            flat = np.unpackbits(part, count=array.size).astype(bool)
        else:
            flat = part.view(array.dtype)
        arrays[name] = flat.reshape(array.shape)
        start += sizes[name]
    return arrays


def _bytes(array: np.ndarray) -> int:
    return math.ceil(array.size / 8) if array.dtype == bool else array.nbytes
