"""A batch of answers → the bytes of each sample: the payload LoadGen hashes and logs, the same in
performance and accuracy runs.

`compliance/scoring/payload.py` says what the layout is, and reads it. Neither imports the other,
because an audit judges the bytes by itself; a test holds them together
(tests/compliance/test_arrays.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sut.contract import Batch

Payload = tuple[np.ndarray, Sequence[int] | None]
"""(rows, lengths): the bytes of a row along axis 0 are a sample's answer, whatever their dtype; of
each row its first `length` bytes count, or all where there are no lengths.
"""


def pack(answers: Batch, keys: Sequence[str]) -> Payload:
    """One key: the array itself, no copy, unless it is boolean. One key with `n_tokens` beside it:
    rows are cut to that many tokens.
    """
    if len(keys) > 1:
        return np.concatenate([_bytes(answers[k]) for k in keys], axis=1), None
    rows = answers[keys[0]]
    if rows.dtype.kind == "b":
        rows = _bytes(rows)
    return rows, (answers["n_tokens"] * rows.itemsize).tolist() if "n_tokens" in answers else None


def describe(answers: Batch, keys: Sequence[str]) -> dict[str, Any]:
    """Name of each array → its `dtype`, and its `shape` without the axis of samples; None: as long
    as the sample's own `n_tokens`.
    """
    cut = len(keys) == 1 and "n_tokens" in answers
    return {
        key: {
            "dtype": answers[key].dtype.name,
            "shape": [None] if cut else list(answers[key].shape[1:]),
        }
        for key in keys
    }


def _bytes(array: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(array).reshape(len(array), -1)
    return np.packbits(flat, axis=1) if flat.dtype == bool else flat.view(np.uint8)
