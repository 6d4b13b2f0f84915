"""The inputs of a cell → one .npz every SUT reads, and a synthetic twin of the same shapes to warm up with."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.inputs import families
from harness.inputs.families import Arrays, Description
from harness.inputs.models import Model, Size
from harness.inputs.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What every SUT reads.

    Attributes:
        path, synthetic: .npz of equal arrays; synthetic begins with `warmup_rows` rows that show each shape once.
        digest: sha256 of names, dtypes, shapes and bytes of the arrays, hex.
        count: how many samples there are.
        arrays: name → `dtype`, and `shape` without the axis of samples.
        description: what the family says of them.
        notes: what a reader of the result should know of the user's file.
    """

    path: Path
    synthetic: Path
    warmup_rows: int
    digest: str
    count: int
    arrays: Mapping[str, Mapping[str, Any]]
    description: Description
    notes: tuple[str, ...] = ()


def prepare(
    model: Model,
    size: Size,
    samples: int,
    dataset: Path | None,
    cache: Path,
    own: Tokenizer | None = None,
    seq_len: int | None = None,
) -> Inputs:
    """Write the inputs of a cell under cache/inputs/, named by their content. Raises UsageError where the user's file does not fit.

    Args:
        samples: how many, where there is no data set.
        dataset: the user's file.
        own: the tokenizer of the user's weights, if they have one.
        seq_len: `--seq-len`; None: synthetic inputs are as long as the size has them, prompts are padded to the longest of them.
    """
    family, notes = families.of(model), tuple[str, ...]()
    if dataset is None:
        arrays = family.synthetic(size, samples, 0)
    else:
        arrays, notes = families.dataset_of(model).read(model, size, dataset, own, seq_len)
    count = len(next(iter(arrays.values())))
    twin, warmup_rows = family.twin(arrays, size) if family.twin else (family.synthetic(size, count + 1, 1), 1)
    digest = _digest(arrays)
    directory = cache / "inputs" / f"{model.name}-{size.name}-{digest[:12]}"
    return Inputs(
        path=_write(directory / "inputs.npz", arrays),
        synthetic=_write(directory / "synthetic.npz", twin),
        warmup_rows=warmup_rows,
        digest=digest,
        count=count,
        arrays={name: {"dtype": array.dtype.name, "shape": array.shape[1:]} for name, array in arrays.items()},
        description=family.describe(arrays),
        notes=notes,
    )


def _digest(arrays: Arrays) -> str:
    """sha256 over names, dtypes, shapes and bytes; not over the .npz, whose container may change."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        total.update(np.ascontiguousarray(arrays[name]).tobytes())
    return total.hexdigest()


def _write(path: Path, arrays: Arrays) -> Path:
    """Always anew, so that the file is what the digest says; atomically, so that another process may do the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    with partial.open("wb") as f:
        np.savez(f, allow_pickle=False, **arrays)
    partial.replace(path)
    return path
