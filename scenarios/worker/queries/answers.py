"""Converts a batch of answers to the bytes of each sample: the payload that LoadGen hashes and
logs. It is the same in performance and accuracy runs.

`compliance/scoring/payload.py` documents the layout and reads it. Neither module imports the other,
because an audit judges the bytes by itself. A test checks that they agree
(tests/compliance/test_arrays.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sut.contract import Batch, Unsupported

Ids = Sequence[int]
"""LoadGen's ids of the samples of a query."""
Indices = Sequence[int]
"""The rows of these samples in the data set."""
TOKENS = ("tokens",)
"""The value of `Job.answer` of a SUT that generates."""
Payload = tuple[np.ndarray, Sequence[int] | None]
"""(rows, lengths). The bytes of a row along axis 0 are a sample's answer, in any dtype. Only the
first `length` bytes of a row count, or all of them without lengths.
"""


def pack(answers: Batch, keys: Sequence[str]) -> Payload:
    """Pack the arrays of `keys`. A single key gives the array itself, not a copy, unless it is
    boolean. If there is also `n_tokens`, rows are cut to that many tokens.
    """
    if len(keys) > 1:
        return np.concatenate([_bytes(answers[k]) for k in keys], axis=1), None
    rows = answers[keys[0]]
    if rows.dtype.kind == "b":
        rows = _bytes(rows)
    return rows, (answers["n_tokens"] * rows.itemsize).tolist() if "n_tokens" in answers else None


def check_rows(answers: Batch, keys: Sequence[str], samples: int) -> None:
    """Raises Unsupported if an array does not have a row for each sample of the batch."""
    for key in keys:
        shape = list(np.shape(answers[key]))
        if shape[:1] != [samples]:
            raise Unsupported(
                f"the output {key.removeprefix('output_')} has the shape {shape} for a batch of"
                f" {samples} samples: its first axis has to be the batch, so that each sample has"
                " its own answer"
            )


def describe(answers: Batch, keys: Sequence[str]) -> dict[str, Any]:
    """Name of each array → its `dtype`, and its `shape` without the axis of samples. None in the
    shape means the sample's own `n_tokens`.
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


def largest(values: np.ndarray, count: int) -> np.ndarray:
    """The places of the largest values on the last axis, the largest first, int32 [..., count].
    Equal ones are in the order of their places. The whole axis is not sorted.
    """
    found = np.sort(np.argpartition(values, -count, axis=-1)[..., -count:], axis=-1)
    order = np.argsort(-np.take_along_axis(values, found, -1), axis=-1, kind="stable")
    return np.take_along_axis(found, order, -1).astype(np.int32)
