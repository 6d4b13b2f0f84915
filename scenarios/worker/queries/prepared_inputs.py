"""This module checks that `prepare` only renamed, transposed, cast and padded the inputs.

Any other work in `prepare` would be work that the clock does not see. MLPerf allows no other work
before the clock (inference rules, "Untimed preprocessing").
"""

from __future__ import annotations

import numpy as np

from sut.contract import Batch

_ROWS = 8
RULE = (
    "prepare may rename, transpose, cast and pad arrays; move other work into predict, where it is"
    " timed"
)
"""What `prepare` may do, in words."""


def check(inputs: Batch, prepared: Batch) -> None:
    """Raises ValueError, with the name of the array, if `prepare` did other work on it. A few rows
    of each array are checked.

    An array may be the same for all rows (positions, token types). Else each row contains the
    values of one input's row, in any order and each as often as there. One value may occur more
    often: the padding.

    Args:
        inputs: the arrays that `prepare` was given, [n, …] each.
        prepared: the arrays that it returned.
    """
    count = len(next(iter(inputs.values())))
    if not prepared:
        raise ValueError(f"prepare returned no array; {RULE}")
    rows = np.unique(np.linspace(0, count - 1, _ROWS).astype(int))
    for name, array in prepared.items():
        if array.ndim == 0 or len(array) != count:
            raise ValueError(
                f"prepare returned `{name}` of shape {array.shape} for {count} samples; its first"
                " axis is that of the samples"
            )
        picked = array[rows].reshape(len(rows), -1)
        if (picked == picked[0]).all():
            continue
        if not any(
            all(_comes_of(row, x[at]) for row, at in zip(picked, rows, strict=True))
            for x in inputs.values()
        ):
            raise ValueError(f"prepare computed `{name}`: its values are those of no input; {RULE}")


def _comes_of(row: np.ndarray, source: np.ndarray) -> bool:
    """Return whether `row`, [m], contains all values of `source`, cast, in any order. One value may
    occur more often: the padding.
    """
    with np.errstate(all="ignore"):
        cast = np.asarray(source).ravel().astype(row.dtype)
    if len(row) < len(cast):
        return False
    # Nothing was padded. For the millions of values of an image, sorting takes a tenth of the time.
    if len(row) == len(cast):
        return np.array_equal(np.sort(row), np.sort(cast), equal_nan=row.dtype.kind == "f")
    values, inverse = np.unique(np.concatenate([cast, row]), return_inverse=True)
    more = np.bincount(inverse[len(cast) :], minlength=len(values)) - np.bincount(
        inverse[: len(cast)], minlength=len(values)
    )
    return bool((more >= 0).all() and np.count_nonzero(more) <= 1)
