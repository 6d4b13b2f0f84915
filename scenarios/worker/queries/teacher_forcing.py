"""Teacher-forced logits of generated answers. The accuracy of bfloat16 is judged by them, because
its greedy tokens may honestly differ.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sut.contract import Batch, Inference


def forced_logits(sut: Inference, inputs: Batch, answers: Batch, batch_size: int) -> np.ndarray:
    """The logits that choose each new token, float32 [rows, new, vocabulary], given the prompts and
    the answers before it.

    Args:
        inputs: `input_ids` right-padded, `prompt_length`; answers: `tokens` [rows, new]. Logits
            beyond a row's own count of tokens are not meaningful.
    """
    return np.concatenate(list(_batches(sut, inputs, answers["tokens"], batch_size)))


def own_logits(sut: Inference, inputs: Batch, tokens: np.ndarray, batch_size: int) -> np.ndarray:
    """Compute the logits of the tokens that the SUT generated, by the SUT's own forward pass.

    Args:
        tokens: the SUT's answers, int32 [rows, new].

    Return float32 [rows, new, 2]: the largest logit of each position, and the logit of the token
    that was generated there.
    """
    pairs = []
    for number, logits in enumerate(_batches(sut, inputs, tokens, batch_size)):
        pairs.append(of_chosen(logits, tokens[number * batch_size :][: len(logits)]))
    return np.concatenate(pairs)


def of_chosen(logits: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """logits [rows, new, vocabulary], tokens int32 [rows, new] → the largest logit of each
    position, and the logit of its token, float32 [rows, new, 2].
    """
    chosen = np.take_along_axis(logits, tokens[:, :, None], -1)
    return np.concatenate([logits.max(-1, keepdims=True), chosen], axis=-1)


def _batches(
    sut: Inference, inputs: Batch, tokens: np.ndarray, batch_size: int
) -> Iterator[np.ndarray]:
    """Yield the forced logits of one batch after the other. The last batch is cut to the remaining
    rows. They are those of the generation itself, if the SUT can force it.
    """
    if not hasattr(sut, "forced_logits"):
        yield from _of_whole_sequences(sut, inputs, tokens, batch_size)
        return
    rows, new = tokens.shape
    requested = np.full(rows, new, np.int32)
    prepared = sut.prepare({**inputs, "max_new_tokens": requested})
    for part in _parts(rows, batch_size):
        batch = {name: values[part] for name, values in prepared.items()}
        yield sut.forced_logits(batch, tokens[part])[: rows - part[0]]


def _of_whole_sequences(
    sut: Inference, inputs: Batch, tokens: np.ndarray, batch_size: int
) -> Iterator[np.ndarray]:
    """Yield the same, of one forward pass of prompts and answers."""
    ids, lengths = inputs["input_ids"], inputs["prompt_length"].astype(np.int64)
    rows, new = tokens.shape
    sequences = np.zeros((rows, ids.shape[1] + new), np.int32)
    sequences[:, : ids.shape[1]] = ids
    positions = lengths[:, None] + np.arange(new)
    np.put_along_axis(sequences, positions, tokens, axis=1)
    for part in _parts(rows, batch_size):
        logits = sut.logits(sequences[part])
        chosen = np.take_along_axis(logits, positions[part][:, :, None] - 1, axis=1)
        yield chosen[: rows - part[0]]


def _parts(rows: int, batch_size: int) -> Iterator[np.ndarray]:
    """Yield the rows of each batch. The last batch repeats the last row."""
    for start in range(0, rows, batch_size):
        yield np.arange(start, start + batch_size).clip(max=rows - 1)
