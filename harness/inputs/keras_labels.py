"""The labels of a user's own `.keras` file that is trained: one array for each output with a loss.

An array is called `label`, or `label_` and the name of its output if there are several outputs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.errors import Refused
from harness.inputs.keras_file import CUSTOM

PREFIX = "label"
IDS = "ids"
ONE_HOT = "one-hot"
BINARY = "0 or 1"
NUMBERS = "numbers"
UNKNOWN = "unknown"
# The name of a loss, in small letters and without underscores, contains the first word.
_KINDS = {
    "sparsecategorical": IDS,
    "categorical": ONE_HOT,
    "kldivergence": ONE_HOT,
    "kullbackleibler": ONE_HOT,
    "binary": BINARY,
    "hinge": BINARY,
    "dice": BINARY,
    "tversky": BINARY,
    "mean": NUMBERS,
    "huber": NUMBERS,
    "cosh": NUMBERS,
    "cosinesimilarity": NUMBERS,
    "poisson": NUMBERS,
}
_SHORT = {"mse": NUMBERS, "mae": NUMBERS, "mape": NUMBERS, "msle": NUMBERS, "kld": ONE_HOT}


@dataclass(frozen=True, kw_only=True)
class Label:
    """The labels of one output.

    Attributes:
        name: of the array.
        loss: the name of the output's loss.
        shape: of the output, without the axis of samples.
    """

    name: str
    loss: str
    shape: tuple[int, ...]

    @property
    def kind(self) -> str:
        """IDS, ONE_HOT, BINARY, NUMBERS or UNKNOWN, by the loss."""
        return kind_of(self.loss)


def kind_of(loss: str) -> str:
    """Return the kind of the labels of a loss."""
    if loss.startswith(CUSTOM):
        return UNKNOWN
    plain = re.sub("[^a-z]", "", loss.lower())
    if plain in _SHORT:
        return _SHORT[plain]
    return next((kind for word, kind in _KINDS.items() if word in plain), UNKNOWN)


def names(outputs: Sequence[str], losses: Sequence[str | None]) -> list[str | None]:
    """Return the name of each output's labels; None: it has no loss."""
    if len(outputs) == 1:
        return [PREFIX]
    named = zip(outputs, losses, strict=True)
    return [f"{PREFIX}_{output}" if loss else None for output, loss in named]


def drawn(label: Label, samples: int, stream: int) -> np.ndarray:
    """Return random labels. Another stream gives other values."""
    rng = np.random.default_rng([stream, *label.name.encode()])
    shape = (samples, *label.shape)
    kind = label.kind
    if kind in (IDS, ONE_HOT):
        ids = rng.integers(label.shape[-1], size=shape[:-1])
        if kind == IDS:
            return ids.astype(np.int32)
        return np.eye(label.shape[-1], dtype=np.float32)[ids]
    if kind == BINARY:
        return rng.integers(2, size=shape).astype(np.float32)
    return rng.random(shape, np.float32)


def fitted(label: Label, array: np.ndarray) -> np.ndarray:
    """Return a user's labels. Raises UsageError if they do not fit the output."""
    is_ids = label.kind == IDS
    shape = label.shape[:-1] if is_ids else label.shape
    allowed = [shape, (*shape, 1)] if is_ids else [shape]
    if not is_ids and shape[-1:] == (1,):
        allowed.append(shape[:-1])
    if label.kind != UNKNOWN and array.shape[1:] not in allowed:
        raise Refused(
            f"{label.name} has shape {list(array.shape)}, and {label.loss} takes"
            f" [samples{''.join(f', {side}' for side in allowed[0])}]"
        )
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise Refused(f"{label.name} has values that are not finite numbers")
    if is_ids:
        classes = label.shape[-1]
        whole = array.dtype.kind in "iu" or (array == np.floor(array)).all()
        if not whole or not 0 <= array.min() <= array.max() < classes:
            raise Refused(
                f"{label.name} has values from {array.min()} to {array.max()}, and {label.loss}"
                f" takes ids from 0 to {classes - 1}"
            )
        return array.astype(np.int32)
    return array.astype(np.float32)
