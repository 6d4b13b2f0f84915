"""A batch of answers → the bytes of each sample: the payload LoadGen hashes and logs, the same in performance and accuracy runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sut.contract import Batch


class Payload(NamedTuple):
    rows: np.ndarray
    """uint8 [batch, bytes], C-contiguous."""
    lengths: Sequence[int] | None
    """Bytes of each row that count; None: all."""


def pack(answers: Batch, keys: Sequence[str]) -> Payload:
    """One key: the array itself, no copy. `tokens` rows are cut to `n_tokens`; masks are bit-packed."""
    rows = [_bytes(answers[k]) for k in keys]
    joined = rows[0] if len(rows) == 1 else np.concatenate(rows, axis=1)
    if "n_tokens" not in answers:
        return Payload(joined, None)
    return Payload(joined, (answers["n_tokens"] * answers["tokens"].itemsize).tolist())


def _bytes(array: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(array).reshape(len(array), -1)
    return np.packbits(flat, axis=1) if flat.dtype == bool else flat.view(np.uint8)
