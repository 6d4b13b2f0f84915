"""Reads tensors of a checkpoint folder by name. The folder has one safetensors file, several with
an index, or a folder for each part.

The tensors of a part are named `part/tensor`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors import safe_open

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_OF_DIFFUSERS = "diffusion_pytorch_model.safetensors"


def file_of(folder: Path, name: str) -> Path:
    """Return the file that contains the tensor. A single file takes precedence over an index, as in
    Transformers. Raises KeyError.
    """
    part, slash, _ = name.partition("/")
    if slash:
        return next(
            path
            for path in (folder / part / SINGLE, folder / part / _OF_DIFFUSERS)
            if path.exists()
        )
    if (folder / SINGLE).exists():
        return folder / SINGLE
    return folder / json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"][name]


def names(folder: Path) -> list[str]:
    """Return the names of all tensors, sorted."""
    if (folder / SINGLE).exists():
        return _names_in(folder / SINGLE)
    if (folder / INDEX).exists():
        return sorted(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"])
    return [
        f"{path.parent.name}/{name}"
        for path in sorted(folder.glob("*/*.safetensors"))
        for name in _names_in(path)
    ]


def _names_in(path: Path) -> list[str]:
    with safe_open(path, framework="np") as f:
        return sorted(f.keys())


def tensor(folder: Path, name: str) -> np.ndarray:
    """Return the tensor in its stored dtype; bfloat16 is that of ml_dtypes. Raises safetensors' own
    error if the file has no such tensor.
    """
    with safe_open(file_of(folder, name), framework="np") as f:
        return f.get_tensor(name.rpartition("/")[2])


def rows(folder: Path, name: str, at_a_time: int = 4096) -> Iterator[np.ndarray]:
    """Yield the tensor in parts of its first axis, so that it can be larger than the memory."""
    with safe_open(file_of(folder, name), framework="np") as f:
        part = f.get_slice(name.rpartition("/")[2])
        count = part.get_shape()[0]
        for start in range(0, count, at_a_time):
            yield part[start : min(start + at_a_time, count)]
