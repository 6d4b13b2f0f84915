"""Writes reference.npz: the answers that every other SUT is compared with. For generated answers it
also has the candidates of each position.

Each batch is written to a file of its own. If a worker is interrupted, the next one continues after
the last whole batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from scenarios.worker.queries.answers import check_rows, largest
from scenarios.worker.queries.teacher_forcing import forced_logits
from sut.contract import Batch, Inference

FILE = "reference.npz"
TOP = 8
"""The number of candidates for each position, which is enough to say how wrong another token is."""
PARTS = "*-part-*.npz"
"""The files of single batches, in the folder of reference.npz. Its owner deletes them."""
ANSWERS = "answers"
CANDIDATES = "candidates"
WRITING = "writing"
_SECONDS = "seconds"  # of a part: of its answers and of its candidates
_OF_TOKENS = ("tokens", "top_ids", "top_logits", "logits")


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
) -> dict[str, float]:
    """Write the answers of every row. For generate, also write the top candidates of every position
    and the full logits of the first rows. Return step → its seconds, over all workers.

    Args:
        prepared: all rows of `inputs`, in order, in batches as `sut.predict` takes them.
        on_batch: called after each batch.
        end_tokens: the tokens that end an answer. They are written too, with `max_new_tokens`,
            because they determine how an answer may end.
        mask: the name of the inputs' mask, int [rows, positions], if each position has an answer.
            Where it is 0, answers are not compared. It is written as `is_token`.
    """
    files = []
    for number, batch in enumerate(prepared):
        files.append(path.with_name(f"{path.stem}-part-{number}-of-{batch_size}.npz"))
        if not files[-1].exists():
            start = number * batch_size
            rows = {name: values[start : start + batch_size] for name, values in inputs.items()}
            part = _part(sut, batch, rows, batch_size, max(0, logits_rows - start))
            _save(files[-1], part)
        on_batch()
    began = time.monotonic()
    parts = [_load(file) for file in files]
    answering_s, rating_s = np.sum([part.pop(_SECONDS) for part in parts], axis=0)
    answers = {name: _joined(name, parts) for name in parts[0]}
    if "tokens" in answers and end_tokens:
        answers["end_tokens"] = np.array(end_tokens, np.int32)
        answers["max_new_tokens"] = inputs["max_new_tokens"]
    if mask is not None:
        answers["is_token"] = np.asarray(inputs[mask]) == 1
    _save(path, answers)
    return {
        ANSWERS: float(answering_s),
        CANDIDATES: float(rating_s),
        WRITING: time.monotonic() - began,
    }


def _part(
    sut: Inference, batch: Batch, rows: Batch, batch_size: int, logits_rows: int
) -> dict[str, np.ndarray]:
    """Answer one batch. `rows` are its inputs before they were prepared, without padding."""
    began = time.monotonic()
    count = len(next(iter(rows.values())))
    outputs = sut.to_host(sut.predict(batch))
    check_rows(outputs, list(outputs), batch_size)
    answers = {name: np.array(values)[:count] for name, values in outputs.items()}
    answered = time.monotonic()
    if "tokens" in answers:
        # The candidates of a batch, and the full logits of its first `logits_rows` rows.
        logits = forced_logits(sut, rows, {"tokens": answers["tokens"]}, batch_size)
        top = largest(logits, TOP)
        candidates = {
            "top_ids": top,
            "top_logits": np.take_along_axis(logits, top, -1),
            "logits": logits[:logits_rows],
        }
        answers |= candidates
    return {**answers, _SECONDS: np.array([answered - began, time.monotonic() - answered])}


def _save(path: Path, arrays: Batch) -> None:
    """Write the file under its name only when it is whole."""
    partial = path.with_suffix(".partial")
    with partial.open("wb") as f:
        np.savez(f, allow_pickle=False, **arrays)
    partial.replace(path)


def _load(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


def _joined(name: str, parts: Sequence[Batch]) -> np.ndarray:
    """One array of all parts. Arrays of tokens are padded to the widest part, because batches may
    have generated different counts.
    """
    arrays = [part[name] for part in parts]
    if name in _OF_TOKENS and "tokens" in parts[0]:
        width = max(array.shape[1] for array in arrays)
        arrays = [_widened(array, width) for array in arrays]
    return np.concatenate(arrays)


def _widened(array: np.ndarray, width: int) -> np.ndarray:
    """Pad axis 1 with zeros."""
    missing = [(0, 0)] * array.ndim
    missing[1] = (0, width - array.shape[1])
    return np.pad(array, missing)
