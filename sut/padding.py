"""This module decides how prompts of uneven length become arrays.

A SUT that compiles once for each shape gets few shapes. Others get arrays that are as short as may
be. The rules allow caching by shape, but not by content ("inference_rules.adoc", Model
Equivalence).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sut.contract import Batch


def bucket(length: int, buckets: Sequence[int]) -> int:
    """The smallest bucket that holds `length`; buckets ascend and the last one holds the longest
    row of the data set.
    """
    return next(b for b in buckets if b >= length)


def shape(batch: Batch, config: Mapping[str, Any], eager: bool = False) -> tuple[int, int]:
    """(prompt positions, new tokens) of a batch: the buckets of its longest prompt and of its
    largest `max_new_tokens`.

    `eager`: of several prompt buckets none, but the longest prompt itself, because nothing is
    compiled for another shape. One bucket stays, so that all samples cost the same (TEST04 takes
    that for granted).
    """
    longest, buckets = int(batch["prompt_length"].max()), config["prompt_buckets"]
    new = bucket(int(batch["max_new_tokens"].max()), config["new_token_buckets"])
    return longest if eager and len(buckets) > 1 else bucket(longest, buckets), new


def produced(tokens: np.ndarray, asked: np.ndarray, end_tokens: Sequence[int]) -> np.ndarray:
    """Count the tokens of each row that are its answer: up to and including its first end token,
    and at most `asked`; int32 [batch].

    Args:
        tokens: what was generated, int [batch, new]. Libraries go on, or fill up, behind a row's
            end until the whole batch has ended.
        asked: `max_new_tokens` of each row.
        end_tokens: the ids at which an answer ends; none: every row goes on to what was asked for.
    """
    counts = asked.astype(np.int32)
    if not end_tokens:
        return counts
    ends = np.isin(tokens, end_tokens)
    return np.minimum(
        counts, np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, tokens.shape[1])
    ).astype(np.int32)


def left_align(ids: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Right-padded [batch, width] → left-padded, with its int64 mask: libraries that append at the
    end want prompts to end together.
    """
    width = ids.shape[1]
    if (lengths == width).all():
        return ids, np.ones(ids.shape, np.int64)
    columns = np.arange(width) - (width - lengths[:, None])
    mask = columns >= 0
    return np.where(mask, np.take_along_axis(ids, np.maximum(columns, 0), 1), 0), mask.astype(
        np.int64
    )
