"""One rule, for every SUT, of how prompts of uneven length become arrays of few shapes (a compiled SUT compiles once for each).

Caching by shape is allowed by the rules ("inference_rules.adoc", Model Equivalence), by content it is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sut.contract import Batch


def bucket(length: int, buckets: Sequence[int]) -> int:
    """The smallest bucket that holds `length`; buckets ascend and the last one holds the longest row of the data set."""
    return next(b for b in buckets if b >= length)


def shape(batch: Batch, config: Mapping[str, Any]) -> tuple[int, int]:
    """(prompt positions, new tokens) of a batch: the buckets of its longest prompt and of its largest `max_new_tokens`."""
    return (
        bucket(int(batch["prompt_length"].max()), config["prompt_buckets"]),
        bucket(int(batch["max_new_tokens"].max()), config["new_token_buckets"]),
    )


def left_align(ids: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Right-padded [batch, width] → left-padded, with its int64 mask: libraries that append at the end want prompts to end together."""
    width = ids.shape[1]
    if (lengths == width).all():
        return ids, np.ones(ids.shape, np.int64)
    columns = np.arange(width) - (width - lengths[:, None])
    mask = columns >= 0
    return np.where(mask, np.take_along_axis(ids, np.maximum(columns, 0), 1), 0), mask.astype(np.int64)
