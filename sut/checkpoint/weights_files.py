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

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_OF_DIFFUSERS = "diffusion_pytorch_model.safetensors"


def file_of(folder: Path, name: str) -> Path:
    """Return the file that contains the tensor. A single file takes precedence over an index, as in
    Transformers. Raises KeyError.
    """
    part, slash, _ = name.partition("/")
    if slash:
        single = folder / part / SINGLE
        return single if single.exists() else folder / part / _OF_DIFFUSERS
    if (folder / SINGLE).exists():
        return folder / SINGLE
    return folder / _weight_map(folder)[name]


def _weight_map(folder: Path) -> dict[str, str]:
    """Name of a tensor → name of its file, from the folder's index."""
    index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    return dict(index["weight_map"])


def names(folder: Path) -> list[str]:
    """Return the names of all tensors, sorted."""
    if (folder / SINGLE).exists():
        return _names_in(folder / SINGLE)
    if (folder / INDEX).exists():
        return sorted(_weight_map(folder))
    names = []
    for path in sorted(folder.glob("*/*.safetensors")):
        names += [f"{path.parent.name}/{name}" for name in _names_in(path)]
    return names


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
