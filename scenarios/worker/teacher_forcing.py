"""Teacher-forced logits of generated answers: what accuracy of bfloat16 is judged by, where greedy tokens may honestly differ."""

from __future__ import annotations

import numpy as np

from sut.contract import Batch, Inference


def forced_logits(sut: Inference, inputs: Batch, answers: Batch, batch_size: int) -> np.ndarray:
    """The logits that choose each new token, float32 [rows, new, vocabulary], given the prompts and the answers before it.

    Args:
        inputs: `input_ids` right-padded, `prompt_length`; answers: `tokens` [rows, new]. Rows beyond a row's own count are not meaningful.
    """
    ids, lengths, tokens = inputs["input_ids"], inputs["prompt_length"].astype(np.int64), answers["tokens"]
    rows, new = tokens.shape
    sequences = np.zeros((rows, ids.shape[1] + new), np.int32)
    sequences[:, : ids.shape[1]] = ids
    positions = lengths[:, None] + np.arange(new)
    np.put_along_axis(sequences, positions, tokens, axis=1)
    chosen = []
    for start in range(0, rows, batch_size):
        part = np.arange(start, start + batch_size).clip(max=rows - 1)
        logits = sut.logits(sequences[part])
        chosen.append(np.take_along_axis(logits, positions[part][:, :, None] - 1, axis=1)[: rows - start])
    return np.concatenate(chosen)
