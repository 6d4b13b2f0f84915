"""Batches of inputs of similar lengths, without the padding that all of a batch have. A switch of
`--tuned` requests them for Offline, where all samples come in one query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from scenarios.worker.queries.answers import Indices
from sut.contract import Batch

_MASK = "attention_mask"
_PROMPT = "prompt_length"
T = TypeVar("T")


def widths(longest: int, count: int) -> tuple[int, ...]:
    """Return the widths to which batches are cut, ascending. The last one is `longest`, the width
    of the inputs, and the others divide it evenly, rounded up to a multiple of 8.
    """
    found = [-(-longest * part // (8 * count)) * 8 for part in range(1, count)]
    return tuple(sorted({min(width, longest) for width in (*found, longest)}))


def lengths(arrays: Batch) -> np.ndarray:
    """Return the tokens of each input, int64 [samples]. `arrays`: the inputs, with a mask or with
    the lengths of prompts.
    """
    if _MASK in arrays:
        return arrays[_MASK].sum(axis=1, dtype=np.int64)
    return arrays[_PROMPT].astype(np.int64)


def by_length(
    ids: Sequence[T], indices: Indices, tokens: np.ndarray, chunk: int
) -> tuple[list[T], list[int]]:
    """Return the samples of a query, the longest inputs first within each chunk. The rules of LLMs
    forbid sorting across passes over the data set.

    Args:
        ids: LoadGen's ids of the samples.
        indices: their rows.
        tokens: the tokens of each row.
        chunk: the number of samples in a chunk.
    """
    chunks = np.arange(len(indices)) // chunk
    order = np.lexsort((-tokens[np.asarray(indices)], chunks))
    return [ids[place] for place in order], [indices[place] for place in order]


def cut(batch: Batch, width: int, buckets: Sequence[int]) -> Batch:
    """Return a batch in the narrowest bucket with room for `width` tokens. Padding is at the end of
    each row. A batch without arrays of the inputs' width stays as it is.
    """
    narrow = next(bucket for bucket in buckets if bucket >= width)
    widest = buckets[-1]
    if narrow == widest:
        return batch
    found = {}
    for name, values in batch.items():
        has_tokens = values.ndim > 1 and values.shape[1] == widest
        found[name] = np.ascontiguousarray(values[:, :narrow]) if has_tokens else values
    return found
