"""A batch of answers → the bytes of each sample: the payload LoadGen hashes and logs, the same in performance and accuracy runs.

The layout: the arrays one after the other in the order of the answer's keys, each C-contiguous in the machine's byte order. A boolean
array is bit-packed: eight values a byte, the first in the highest bit, its last byte filled up with zeros. `compliance.scoring.payload`
reads it. That imports nothing from here, because an audit judges the bytes by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sut.contract import Batch

Payload = tuple[np.ndarray, Sequence[int] | None]
"""(rows, lengths): the bytes of a row along axis 0 are a sample's answer, whatever their dtype; of each row its first `length` bytes count,
or all where there are no lengths."""


def pack(answers: Batch, keys: Sequence[str]) -> Payload:
    """One key: the array itself, no copy, unless it is boolean. One key with `n_tokens` beside it: rows are cut to that many tokens."""
    if len(keys) > 1:
        return np.concatenate([_bytes(answers[k]) for k in keys], axis=1), None
    rows = answers[keys[0]]
    if rows.dtype.kind == "b":
        rows = _bytes(rows)
    return rows, (answers["n_tokens"] * rows.itemsize).tolist() if "n_tokens" in answers else None


def describe(answers: Batch, keys: Sequence[str]) -> dict[str, Any]:
    """Name of each array → its `dtype`, and its `shape` without the axis of samples; None: as long as the sample's own `n_tokens`."""
    cut = len(keys) == 1 and "n_tokens" in answers
    return {key: {"dtype": answers[key].dtype.name, "shape": [None] if cut else list(answers[key].shape[1:])} for key in keys}


def _bytes(array: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(array).reshape(len(array), -1)
    return np.packbits(flat, axis=1) if flat.dtype == bool else flat.view(np.uint8)
