"""A batch of answers → the bytes of each sample: the payload LoadGen hashes and logs, the same in performance and accuracy runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sut.contract import Batch


class Payload(NamedTuple):
    rows: np.ndarray
    """C-contiguous, axis 0 = batch; the bytes of a row are a sample's answer, whatever their dtype."""
    lengths: Sequence[int] | None
    """Bytes of each row that count; None: all."""

    @property
    def row_bytes(self) -> int:
        return self.rows.nbytes // len(self.rows)


def pack(answers: Batch, keys: Sequence[str]) -> Payload:
    """One key: the array itself, no copy. `tokens` rows are cut to `n_tokens`; masks are bit-packed."""
    if len(keys) == 1:
        rows = answers[keys[0]]
        if rows.dtype == bool or not rows.flags.c_contiguous:
            rows = _bytes(rows)
    else:
        rows = np.concatenate([_bytes(answers[k]) for k in keys], axis=1)
    if "n_tokens" not in answers:
        return Payload(rows, None)
    return Payload(rows, (answers["n_tokens"] * answers["tokens"].itemsize).tolist())


def _bytes(array: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(array).reshape(len(array), -1)
    return np.packbits(flat, axis=1) if flat.dtype == bool else flat.view(np.uint8)
