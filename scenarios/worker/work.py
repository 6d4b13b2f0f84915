"""Counts the work of a sample on the reference: its operations, and the elements that it moves.

The reference answers some inputs, or trains on them, one at a time. Of an answer of many tokens it
computes the first, the second and the last one again.
"""

from __future__ import annotations

import importlib
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from formats.job import Job
from formats.work import NOTHING, Counted, Part, Work
from formats.writing import write_json
from scenarios.worker.heartbeat import Heartbeat
from sut.contract import Batch
from sut.registry import COUNTER, FIT, REFERENCE

FILE = "work.json"
_MOST_SHAPES = 3
_LONGEST_S = 10
"""No further input is counted after so many seconds. A large model takes minutes for one."""
_MASK = "attention_mask"
_LENGTHS = ("prompt_length", "max_new_tokens")
_ADAMW = 6  # AdamW reads and writes a parameter and its two moments


def write(job: Job, sut: Any, beat: Heartbeat) -> None:
    """Write work.json. A reference that is not PyTorch has none."""
    if job.sut != REFERENCE:
        return
    try:
        counted = Counted(work=_count(job, sut, beat))
    # A user's model may do anything. Its answers are compared even if its work is not known.
    except Exception as e:  # noqa: BLE001
        traceback.print_exc()
        counted = Counted(work=None, reason=f"{type(e).__name__}: {e}")
    write_json(job.log_dir / FILE, counted)


def _count(job: Job, sut: Any, beat: Heartbeat) -> Work:
    with np.load(job.inputs) as file:
        inputs = {name: file[name] for name in file.files}
    known = _known_answers(job)
    first = NOTHING
    later = NOTHING
    tokens = 0.0
    covered = 0.0
    end = time.monotonic() + _LONGEST_S
    for row, share in _rows(inputs):
        if covered and time.monotonic() > end:
            break
        covered += share
        beat.bump()
        batch = sut.prepare(_unpadded(inputs, row))
        if job.workload.task == FIT:
            step = _counted(partial(sut.fit, [batch], 1, lambda loss: None))
            optimizer = Part(flops={}, weights=_ADAMW * sut.trainable, activations=0, passes=0)
            first = first.plus(step.plus(optimizer, 1), share)
            continue
        part = _of_answer(sut, batch, 1)
        first = first.plus(part, share)
        if "max_new_tokens" in batch:
            answer = _answer(sut, batch, row, known)
            later = later.plus(_of_later(sut, batch, answer, part), share)
            tokens += share * (len(answer) - 1)
    first = NOTHING.plus(first, 1 / covered)
    if not first.all_flops:
        raise ValueError("the reference ran no products in PyTorch")
    token = NOTHING.plus(later, 1 / tokens) if tokens else None
    return Work(first=first, token=token)


def _known_answers(job: Job) -> dict[str, np.ndarray]:
    """The `tokens` and `n_tokens` of the reference's answers. Empty if there are none."""
    if job.reference is None:
        return {}
    with np.load(job.reference) as file:
        return {name: file[name] for name in ("tokens", "n_tokens") if name in file.files}


def _answer(sut: Any, batch: Batch, row: int, known: Batch) -> np.ndarray:
    """The tokens of a row's answer, int32 [new]. It is computed if it is not known."""
    if known:
        return known["tokens"][row][: known["n_tokens"][row]]
    answers = sut.to_host(sut.predict(batch))
    tokens: np.ndarray = answers["tokens"][0][: answers["n_tokens"][0]]
    return tokens


def _of_later(sut: Any, batch: Batch, answer: np.ndarray, first: Part) -> Part:
    """The work of all tokens of an answer after the first one.

    The work of a token grows linearly with its position, until a sliding window is full. So the
    mean token has the mean work of the second and the last one.

    Args:
        first: the work of the first token.
    """
    later = len(answer) - 1
    if not later:
        return NOTHING
    second = _of_answer(sut, batch, 2).plus(first, -1)
    # The batch with these tokens after its prompt.
    tokens = answer[:-2]
    length = int(batch["prompt_length"][0])
    ids = np.concatenate([batch["input_ids"][:, :length], tokens[None]], axis=1)
    before_last = {**batch, "input_ids": ids, "prompt_length": batch["prompt_length"] + len(tokens)}
    last = _of_answer(sut, before_last, 2).plus(_of_answer(sut, before_last, 1), -1)
    if not second.passes or not last.passes:
        raise ValueError("the reference ended an answer earlier than it had")
    return NOTHING.plus(second, later / 2).plus(last, later / 2)


def _of_answer(sut: Any, batch: Batch, new: int) -> Part:
    """The work of one answer, of `new` tokens if it has tokens."""
    if "max_new_tokens" in batch:
        batch = {**batch, "max_new_tokens": np.full_like(batch["max_new_tokens"], new)}
    return _counted(lambda: sut.predict(batch))


def _counted(call: Callable[[], object]) -> Part:
    part: Part = importlib.import_module(COUNTER).count(call)
    return part


def _rows(inputs: Batch) -> Iterator[tuple[int, float]]:
    """Yield (row, the share of the inputs that it represents).

    Each shape has a row if there are few. Otherwise the inputs are sorted by their lengths and
    divided into parts of equal size, and the middle one of each part represents it.
    """
    lengths = _lengths(inputs)
    order = np.lexsort(lengths.T)
    _, rows, counts = np.unique(lengths, axis=0, return_index=True, return_counts=True)
    if len(rows) > _MOST_SHAPES:
        parts = np.array_split(order, _MOST_SHAPES)
        rows = np.array([part[len(part) // 2] for part in parts])
        counts = np.array([len(part) for part in parts])
    # The middle lengths are first, so that they represent all if there is no time for others.
    places = sorted(range(len(rows)), key=lambda place: abs(2 * place - len(rows) + 1))
    for place in places:
        yield int(rows[place]), float(counts[place]) / len(lengths)


def _lengths(inputs: Batch) -> np.ndarray:
    """The lengths of each row, int64 [rows, kinds of lengths]."""
    rows = len(next(iter(inputs.values())))
    columns = [np.zeros(rows, np.int64)]
    columns += [inputs[name].astype(np.int64) for name in _LENGTHS if name in inputs]
    if _MASK in inputs:
        columns.append(inputs[_MASK].sum(axis=1, dtype=np.int64))
    return np.stack(columns, axis=1)


def _unpadded(inputs: Batch, row: int) -> Batch:
    """A batch of one row without its padding."""
    batch = {name: values[row : row + 1] for name, values in inputs.items()}
    if _MASK not in batch:
        return batch
    is_token = batch[_MASK][0] != 0
    cut = {}
    for name, values in batch.items():
        has_tokens = values.ndim > 1 and values.shape[1] == len(is_token)
        cut[name] = np.ascontiguousarray(values[:, is_token]) if has_tokens else values
    return cut
