"""The score `arrays`: any named answers, each compared with the reference's array of that name.

Metrics, and their limits in the tolerance, have the names `<name>_<metric>`:

- boolean: `mean_iou` and `smallest_iou` over the samples, the intersection over union. At least the
  limit passes. Two empty masks agree.
- floating-point: `error`, the largest difference in the unit of its place (`value.units`): the
  standard deviation of the reference's array, or less at places that differ less between the
  samples. At most the limit passes. If the reference is constant, the unit is the constant's
  magnitude, or 1 if the constant is 0.
- unsigned 8-bit integers, a picture: `smallest_psnr` over the samples, the peak signal-to-noise
  ratio in decibels. Equal pictures have 100. At least the limit passes. `levels`, the largest
  difference of a value, is only there if the limit does not pass.
- other integers: `equal_fraction`, the share of equal values. At least the limit passes.

The reference of padded inputs also has `is_token`, bool [samples, positions]. Then only the answers
at these positions count, because a library may compute anything for padding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from compliance.scoring.payload import split
from compliance.scoring.value import LEVELS, Accuracy, AnswerBytes, Arrays, Numbers, counted, units

IS_TOKEN = "is_token"
_PEAK = 255.0
_EQUAL_DB = 100.0


def score(
    answers: AnswerBytes,
    reference: Arrays,
    tolerance: Numbers,
    keys: Sequence[str],
    logits: np.ndarray | None,
) -> Accuracy:
    """Compute the score, whose value is `used_tolerance`: the share of the tolerance that the worst
    metric uses. 1 is the limit itself.
    """
    expected = {key: reference[key] for key in keys}
    count = len(expected[keys[0]])
    if uneven := [key for key, array in expected.items() if len(array) != count]:
        raise ValueError(
            f"the reference's {', '.join(uneven)} has another number of samples than its {keys[0]}:"
            " compute it again"
        )
    is_token = _is_token(reference, expected)
    unit = {
        key: units(counted(array, is_token), tolerance.get(f"{key}_error", 0.0), key)
        for key, array in expected.items()
        if array.dtype.kind == "f"
    }
    agreement: dict[str, list[float]] = {key: [] for key in keys}
    levels: dict[str, float] = {}
    for i in range(count):  # sample by sample: all images at once would take gigabytes
        rows = {key: array[i] for key, array in expected.items()}
        places = ... if is_token is None else is_token[i]
        for key, array in split(answers, i, rows).items():
            of_places = unit[key][places] if key in unit else None
            agreement[key].append(_agreement(array[places], rows[key][places], of_places))
            if array.dtype == np.uint8:
                difference = float(np.abs(array.astype(np.int16) - rows[key]).max())
                levels[key] = max(difference, levels.get(key, 0.0))
    if is_token is not None:
        expected = {key: array[is_token] for key, array in expected.items()}
    metrics = [
        metric for key in keys for metric in _metrics(key, np.array(agreement[key]), expected[key])
    ]
    if missing := [name for name, _, _ in metrics if name not in tolerance]:
        raise ValueError(
            f"the tolerance has no limit for {', '.join(missing)}: state one in the model's file"
        )
    passed = []
    used = []
    detail = {"samples": float(count)}
    for name, value, best in metrics:
        limit = tolerance[name]
        passed.append(value <= limit if best == 0 else value >= limit)
        used.append(_share(abs(best - value), abs(best - limit)))
        detail |= {name: value, f"{name}_limit": limit}
    for key, largest in levels.items():
        if detail[f"{key}_smallest_psnr"] < tolerance[f"{key}_smallest_psnr"]:
            detail[f"{key}{LEVELS}"] = largest
    return Accuracy("used_tolerance", float(np.max(used)), 1.0, all(passed), detail)


def _is_token(reference: Arrays, expected: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The reference's `is_token`. None: it has none, so all answers count. Raises ValueError if it
    does not fit the answers, or if a sample has no token.
    """
    is_token = reference.get(IS_TOKEN)
    if is_token is None:
        return None
    fits = all(array.shape[:2] == is_token.shape for array in expected.values())
    if is_token.dtype != bool or not fits or not is_token.any(axis=-1).all():
        raise ValueError(f"the reference's {IS_TOKEN} does not fit its answers: compute it again")
    return np.asarray(is_token)


def _share(distance: float, allowed: float) -> float:
    """`distance` as a share of `allowed`. If `allowed` is 0, the share is 0 for a distance of 0,
    and infinite for any other. NaN stays NaN.
    """
    if allowed == 0:
        return 0.0 if distance == 0 else distance * np.inf
    return distance / allowed


def _agreement(answer: np.ndarray, expected: np.ndarray, unit: np.ndarray | None) -> float:
    """The measure of one sample: the intersection over union of masks, the largest difference of
    floats in `unit`, the PSNR of pictures, or the number of equal integers.
    """
    if expected.dtype == bool:
        union = int((answer | expected).sum())
        return int((answer & expected).sum()) / union if union else 1.0
    if unit is not None:
        return float((np.abs(answer.astype(np.float64) - expected.astype(np.float64)) / unit).max())
    if expected.dtype == np.uint8:
        return psnr(answer, expected)
    return float((answer == expected).sum())


def psnr(picture: np.ndarray, expected: np.ndarray) -> float:
    """The peak signal-to-noise ratio of two 8-bit pictures in decibels, at most 100. Equal pictures
    have 100.
    """
    mean_square = float(((picture.astype(np.float64) - expected) ** 2).mean())
    return min(_EQUAL_DB, 10 * math.log10(_PEAK**2 / mean_square)) if mean_square else _EQUAL_DB


def _metrics(
    key: str, agreement: np.ndarray, expected: np.ndarray
) -> Iterator[tuple[str, float, float]]:
    """(name, value, the best possible value: 0, 1 or 100 dB) of each metric of one array.
    `agreement` has the measure of each sample.
    """
    if expected.dtype == bool:
        yield f"{key}_mean_iou", float(agreement.mean()), 1
        yield f"{key}_smallest_iou", float(agreement.min()), 1
    elif expected.dtype.kind == "f":
        yield f"{key}_error", float(agreement.max()), 0
    elif expected.dtype == np.uint8:
        yield f"{key}_smallest_psnr", float(agreement.min()), _EQUAL_DB
    else:
        yield f"{key}_equal_fraction", float(agreement.sum() / expected.size), 1
