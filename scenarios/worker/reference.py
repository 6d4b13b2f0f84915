"""Writes reference.npz: the answers that every other SUT is compared with. For generated answers it
also has the candidates of each position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from scenarios.worker.teacher_forcing import forced_logits
from sut.contract import Batch, Inference

TOP = 8
"""The number of candidates for each position, which is enough to say how wrong another token is."""


def write_reference(
    path: Path,
    sut: Inference,
    inputs: Batch,
    *,
    prepared: Iterable[Batch],
    batch_size: int,
    logits_rows: int,
    on_batch: Callable[[], None],
    end_tokens: Sequence[int] = (),
    mask: str | None = None,
) -> None:
    """Write the answers of every row. For generate, also write the top candidates of every position
    and the full logits of the first rows.

    Args:
        prepared: all rows of `inputs`, in order, in batches as `sut.predict` takes them.
        on_batch: called after each batch, once for the answers and once for the candidates.
        end_tokens: the tokens that end an answer. They are written too, with `max_new_tokens`,
            because they determine how an answer may end.
        mask: the name of the inputs' mask, int [rows, positions], if each position has an answer.
            Where it is 0, answers are not compared. It is written as `is_token`.
    """
    parts = []
    for batch in prepared:
        parts.append({k: np.array(v) for k, v in sut.to_host(sut.predict(batch)).items()})
        on_batch()
    rows = len(next(iter(inputs.values())))
    answers = {k: np.concatenate([_widen(p[k], parts, k) for p in parts])[:rows] for k in parts[0]}
    if "tokens" in answers:
        answers |= _candidates(
            sut, inputs, answers, batch_size=batch_size, logits_rows=logits_rows, on_batch=on_batch
        )
        answers |= (
            {
                "end_tokens": np.array(end_tokens, np.int32),
                "max_new_tokens": inputs["max_new_tokens"],
            }
            if end_tokens
            else {}
        )
    if mask is not None:
        answers["is_token"] = np.asarray(inputs[mask]) == 1
    with path.open("wb") as f:
        np.savez(f, allow_pickle=False, **answers)


def _widen(array: np.ndarray, parts: list[dict[str, np.ndarray]], key: str) -> np.ndarray:
    """Pad tokens to the widest batch, because batches may have generated different counts."""
    if key != "tokens":
        return array
    return np.pad(array, ((0, 0), (0, max(p[key].shape[1] for p in parts) - array.shape[1])))


def _candidates(
    sut: Inference,
    inputs: Batch,
    answers: Batch,
    *,
    batch_size: int,
    logits_rows: int,
    on_batch: Callable[[], None],
) -> dict[str, np.ndarray]:
    ids, values, kept = [], [], []
    for start in range(0, len(answers["tokens"]), batch_size):
        part = slice(start, start + batch_size)
        logits = forced_logits(
            sut,
            {k: v[part] for k, v in inputs.items()},
            {"tokens": answers["tokens"][part]},
            batch_size,
        )
        top = _largest(logits)
        ids.append(top)
        values.append(np.take_along_axis(logits, top, -1))
        kept.append(logits[: max(0, logits_rows - start)])
        on_batch()
    return {
        "top_ids": np.concatenate(ids),
        "top_logits": np.concatenate(values),
        "logits": np.concatenate(kept),
    }


def _largest(logits: np.ndarray) -> np.ndarray:
    """The ids of the `TOP` largest logits, the largest first, int32 [..., TOP]. Equal ones are in
    the order of their ids. The whole vocabulary is not sorted.
    """
    found = np.sort(np.argpartition(logits, -TOP, axis=-1)[..., -TOP:], axis=-1)
    order = np.argsort(-np.take_along_axis(logits, found, -1), axis=-1, kind="stable")
    return np.take_along_axis(found, order, -1).astype(np.int32)
