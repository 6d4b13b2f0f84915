"""Assigns a checkpoint's tensors to the variables of a Keras model. The checkpoint has another
library's names, and a table of `sut.checkpoint` translates them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from sut.checkpoint import weights_files


def variables(
    roots: Mapping[str, Any], table: Mapping[str, str]
) -> Iterator[tuple[str, Any, bool]]:
    """Yield (name in the checkpoint, the variable, whether it is a layer's weight) of each tensor
    of a checkpoint.

    Args:
        roots: first name of a path → the object that it means.
        table: a table of `sut.checkpoint`.
    """
    for name, path in table.items():
        found = at(SimpleNamespace(**roots), path)
        if name.endswith("*"):
            for part, variable in zip(("weight", "bias"), found.weights, strict=False):
                yield name[:-1] + part, variable, part == "weight"
        else:
            yield name, found, False


def at(root: Any, path: str) -> Any:
    """Return the object at the end of a path. A path is attributes and indices with points between
    them.
    """
    for step in path.split("."):
        root = root[int(step)] if step.isdigit() else getattr(root, step)
    return root


def assign(checkpoint: Path, places: Iterable[tuple[str, Any, bool]]) -> None:
    """Assign its tensor to each variable."""
    for name, variable, is_weight in places:
        value = weights_files.tensor(checkpoint, name).astype(np.float32)
        variable.assign(_to_keras(value).reshape(variable.shape) if is_weight else value)


def _to_keras(weight: np.ndarray) -> np.ndarray:
    """Return a layer's weight as Keras keeps it: [out, in] → [in, out]; convolutions [out, in,
    height, width] → [height, width, in, out].
    """
    return weight.transpose(2, 3, 1, 0) if weight.ndim == 4 else weight.T
