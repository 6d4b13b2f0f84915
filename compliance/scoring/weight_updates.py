"""The updates of the weights in a training, compared with the reference's. A weight that is frozen,
not decayed, or updated by another rule may hardly change the losses of a hundred steps.

A row of updates has six numbers of one parameter: its size; the sum of its initial values; their
length, the root of the sum of their squares; the length of its update, the final values less the
initial ones; the sum of the update; the product of update and initial values. They are the same in
any layout of the parameter, and the first three tell parameters apart without their names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from compliance.scoring.value import Accuracy, Numbers

ERROR = "update_error"
_NUMBERS = 6
_SAME = 1e-2  # initial values that differ less are one parameter's, even if rounded to bfloat16
_TIE = 1e-6
_LEAST_MATCHED = 0.5
"""The least share of the parameters that must be found in a SUT. A library may join several in one
array, such as query, key and value.
"""


def judged(
    curve: Accuracy,
    updates: Sequence[Sequence[float]],
    reference: np.ndarray,
    tolerance: Numbers,
) -> Accuracy:
    """Add the error of the updates to the score of the losses.

    `update_error` is the largest difference of length, sum and product of an update from the
    reference's, as a part of the length of the reference's update.

    Args:
        updates: the rows of the SUT.
        reference: those of the reference that are not only rounding, float64 [parameters, 6].

    Raises ValueError with one sentence if the two cannot be compared.
    """
    if ERROR not in tolerance:
        raise ValueError(f"the tolerance has no limit for {ERROR}")
    own = np.array(updates, np.float64)
    for rows in (own, reference):
        if rows.ndim != 2 or rows.shape[1] != _NUMBERS or not np.isfinite(rows).all():
            raise ValueError("the updates of the weights are not rows of six finite numbers")
    if not len(reference):
        return curve
    errors, matched = _matched(own, reference)
    sizes = reference[:, 0]
    share = float(sizes[matched].sum() / sizes.sum())
    error = max(errors, default=math.inf)
    limit = tolerance[ERROR]
    passed = curve.passed and error <= limit and share >= _LEAST_MATCHED
    more = {ERROR: error, f"{ERROR}_limit": limit, "matched_parameters": share}
    return replace(curve, passed=passed, detail={**curve.detail, **more})


def _matched(own: np.ndarray, reference: np.ndarray) -> tuple[list[float], list[int]]:
    """(The errors of the reference's parameters that the SUT has, their rows)."""
    from scipy.optimize import linear_sum_assignment  # it takes half a second to import

    size = reference[:, 0]
    errors = []
    rows = []
    for count in np.unique(size):
        found = own[own[:, 0] == count]
        wanted = np.flatnonzero(size == count)
        unlike = _unlike(found[:, None], reference[None, wanted])
        error = _errors(found[:, None], reference[None, wanted])
        # Parameters that begin alike, such as biases of zeros, are matched by their updates.
        own_rows, columns = linear_sum_assignment(unlike + _TIE * np.minimum(error, 1))
        for row, column in zip(own_rows, columns, strict=True):
            if unlike[row, column] < _SAME:
                errors.append(float(error[row, column]))
                rows.append(int(wanted[column]))
    return errors, rows


def _unlike(own: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return by how much sums and lengths of initial values differ, as a part of the length. It is
    0 if both are zeros.
    """
    _, total, length, *_ = np.moveaxis(reference, -1, 0)
    _, own_total, own_length, *_ = np.moveaxis(own, -1, 0)
    difference = np.abs(own_length - length) + np.abs(own_total - total)
    scale = np.maximum(np.maximum(length, own_length), np.finfo(np.float64).tiny)
    different: np.ndarray = difference / scale
    return different


def _errors(own: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return by how much updates differ, as a part of the length of the reference's."""
    size, _, initial, length, total, product = np.moveaxis(reference, -1, 0)
    _, _, _, own_length, own_total, own_product = np.moveaxis(own, -1, 0)
    tiny = np.finfo(np.float64).tiny
    with np.errstate(over="ignore"):  # of two different parameters
        along = np.abs(own_product - product) / np.maximum(initial, tiny)
        evenly = np.abs(own_total - total) / np.sqrt(size)
        largest = np.maximum(np.maximum(np.abs(own_length - length), along), evenly)
        errors: np.ndarray = largest / np.maximum(length, tiny)
    return errors
