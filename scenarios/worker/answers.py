"""A batch of answers → the bytes of each sample: the payload LoadGen hashes and logs, the same in performance and accuracy runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sut.contract import Batch

Payload = tuple[np.ndarray, Sequence[int] | None]
"""(rows, lengths): the bytes of a row along axis 0 are a sample's answer, whatever their dtype; of each row its first `length` bytes count,
or all where there are no lengths."""


def pack(answers: Batch, keys: Sequence[str]) -> Payload:
    """One key: the array itself, no copy. `tokens` rows are cut to `n_tokens`; masks are bit-packed."""
    if len(keys) == 1:
        rows = answers[keys[0]]
        if rows.dtype.kind == "b":
            rows = _bytes(rows)
    else:
        rows = np.concatenate([_bytes(answers[k]) for k in keys], axis=1)
    return rows, (answers["n_tokens"] * answers["tokens"].itemsize).tolist() if "n_tokens" in answers else None


def _bytes(array: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(array).reshape(len(array), -1)
    return np.packbits(flat, axis=1) if flat.dtype == bool else flat.view(np.uint8)
