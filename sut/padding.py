"""Arranges prompts of uneven length in arrays.

A SUT that compiles once for each shape gets few shapes. Other SUTs get arrays that are as short as
possible. The rules allow caching by shape, but not by content ("inference_rules.adoc", Model
Equivalence).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sut.contract import Batch, Config


def bucket(length: int, buckets: Sequence[int]) -> int:
    """Return the smallest bucket that is at least `length`. Buckets ascend, and the last one is at
    least as long as the longest row of the data set.
    """
    return next(each for each in buckets if each >= length)


def shape(batch: Batch, config: Config, eager: bool = False) -> tuple[int, int]:
    """Return (prompt positions, new tokens) of a batch: the buckets of its longest prompt and of
    its largest `max_new_tokens`.

    With `eager` the new tokens are the largest `max_new_tokens` itself, because nothing is compiled
    for another shape. So are the prompt positions if there are several buckets. A single bucket is
    used even then, so that all samples cost the same (TEST04 assumes that).
    """
    longest = int(batch["prompt_length"].max())
    most_new = int(batch["max_new_tokens"].max())
    buckets = config["prompt_buckets"]
    if not eager or len(buckets) == 1:
        longest = bucket(longest, buckets)
    if not eager:
        most_new = bucket(most_new, config["new_token_buckets"])
    return longest, most_new


def produced(tokens: np.ndarray, requested: np.ndarray, end_tokens: Sequence[int]) -> np.ndarray:
    """Count the tokens of each row that are its answer: up to and including its first end token,
    and at most `requested`; int32 [batch].

    Args:
        tokens: the generated tokens, int [batch, new]. After a row's end, libraries go on or pad
            until the whole batch has ended.
        requested: `max_new_tokens` of each row.
        end_tokens: the ids at which an answer ends. If there is none, every row has all requested
            tokens.
    """
    counts = requested.astype(np.int32)
    if not end_tokens:
        return counts
    ends = np.isin(tokens, end_tokens)
    until_end = np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, tokens.shape[1])
    return np.minimum(counts, until_end).astype(np.int32)


def left_align(ids: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return right-padded ids [batch, width] as left-padded ids and their int64 mask. Libraries
    that append at the end require that all prompts end at the same column.
    """
    width = ids.shape[1]
    if (lengths == width).all():
        return ids, np.ones(ids.shape, np.int64)
    columns = np.arange(width) - (width - lengths[:, None])
    mask = columns >= 0
    moved = np.take_along_axis(ids, np.maximum(columns, 0), 1)
    return np.where(mask, moved, 0), mask.astype(np.int64)
