"""The classes of a score and of an official metric, and the unit of differences."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

AnswerBytes = Mapping[int, bytes]
"""Index of a sample → its answer, as LoadGen logged it."""
Arrays = Mapping[str, np.ndarray]
Numbers = Mapping[str, float]
"""Numbers by name: those of a score, or the limits of a tolerance."""

LEVELS = "_levels"
"""The end of the name of the largest difference of a picture's values, from 0 to 255."""


@dataclass(frozen=True)
class Accuracy:
    """One score and whether it passes.

    Attributes:
        metric: the name of `value`.
        value: smaller is better, and NaN never passes. The score's own function documents the unit.
        threshold: the largest value that passes.
        passed: whether `value` and every limit in `detail` are met.
        detail: other numbers, and the other limits as `<name>_limit`.
    """

    metric: str
    value: float
    threshold: float
    passed: bool
    detail: Numbers

    @property
    def sentence(self) -> str:
        """The value, the largest that passes, and the other numbers in parentheses."""
        numbers = [f"{key.replace('_', ' ')} {value:.5g}" for key, value in self.detail.items()]
        limit = f"at most {self.threshold:g} passes"
        text = f"{self.metric} is {self.value:.5g}, {limit} ({', '.join(numbers)})"
        if any(name.endswith(LEVELS) and value == 1 for name, value in self.detail.items()):
            text += (
                "; no value of a picture differs by more than 1 of 255, so the pictures are rounded"
                " otherwise: the reference rounds to the nearest"
            )
        return text

    def line(self) -> str:
        """Return the line of accuracy.txt: JSON, with floats to five significant digits. A number
        that is not finite becomes null.
        """
        return json.dumps(_rounded(asdict(self)))


def stated(line: str) -> Accuracy | str:
    """The score that a line of accuracy.txt states, or why it states none. Raises ValueError or
    TypeError for another line.
    """
    document = json.loads(line)
    document = document.get("reference", document)
    if "accuracy" in document:
        return str(document["accuracy"])
    numbers = {
        name: math.nan if number is None else number for name, number in document["detail"].items()
    }
    score = Accuracy(**{**document, "detail": numbers})
    return score if score.value is not None else replace(score, value=math.nan)


@dataclass(frozen=True)
class Scored:
    """The official metric of a run's answers.

    Attributes:
        values: metric, by its name in the rules of a round → its value.
        printed: the line that the official script prints.
    """

    values: Numbers
    printed: str

    def line(self) -> str:
        """Return the line of accuracy.txt."""
        return self.printed


_RMS = "logit_rms"
_OF_SPREAD = 10.0
_SAMPLES = 4
"""The unit of a place over its own spread, at most, and the samples from which a spread is known.
Places of sam's answers differ up to five times less than the whole array, and in four samples up to
ten times less. So the measured disagreements of honest SUTs are the same in both units.
"""
_OF_VALUE = 0.1
_OF_LIMIT = 4.0
_ROUNDINGS = 2.0**-20  # a place that differs by 16 roundings of float32 or less is constant


def counted(expected: np.ndarray, counts: np.ndarray | None) -> np.ndarray:
    """The values, of which those that do not count are masked.

    Args:
        expected: the reference's values, [samples, ...].
        counts: bool, as the first axes of `expected`: which values count. None: all.
    """
    if counts is None:
        return expected
    left_out = ~counts.reshape(counts.shape + (1,) * (expected.ndim - counts.ndim))
    return np.ma.array(expected, mask=np.broadcast_to(left_out, expected.shape))


def units(expected: np.ndarray, limit: float, what: str) -> np.ndarray:
    """The unit of the differences at each place of an answer, float64 [...].

    It is the standard deviation of the whole array, or ten times the standard deviation over the
    samples at this place or at the median place if that is less. So an answer that ignores its
    inputs fails even if the places of an answer differ much, as in a saturated softmax. A place
    that hardly differs is judged by a tenth of its largest value, or by more if the limit is loose.
    Then a difference is a few roundings of this value.

    If there are fewer than four samples, or if no place differs, it is the standard deviation of
    the whole array. Of a constant array it is the magnitude, or 1 if that is 0.

    Args:
        expected: the reference's values, [samples, ...], as `counted` returns them.
        limit: the limit of the differences in this unit.
        what: the name of the values in an error.

    Raises ValueError if a value is not finite.
    """
    whole = _whole(np.ma.compressed(expected), what)
    spreads = np.ma.filled(expected.std(0, dtype=np.float64), 0.0)
    largest = largest_magnitudes(expected)
    differing = spreads[spreads > _ROUNDINGS * largest]
    if len(expected) < _SAMPLES or not differing.size:
        return np.full(spreads.shape, whole)
    usual = np.quantile(differing, 0.5, method="lower")
    by_spread = _OF_SPREAD * np.maximum(spreads, usual)
    by_value = max(_OF_VALUE, _OF_LIMIT * limit) * largest
    return np.minimum(whole, np.maximum(by_spread, by_value))


def largest_magnitudes(expected: np.ndarray) -> np.ndarray:
    """The largest magnitude over the samples at each place, float64 [...]. It is 0 at a place that
    counts in no sample.
    """
    return np.ma.filled(np.abs(expected).max(0), 0.0).astype(np.float64)


def largest_deviations(expected: np.ndarray) -> np.ndarray:
    """The largest distance from the mean over the samples at each place, float64 [...]."""
    distances = np.abs(expected - expected.mean(0, dtype=np.float64))
    return np.ma.filled(distances.max(0), 0.0)


def _whole(expected: np.ndarray, what: str) -> float:
    """The standard deviation of the whole array; of a constant one, its magnitude, or 1."""
    if np.isfinite(expected).all() and expected.min() == expected.max():
        return abs(float(expected.flat[0])) or 1.0
    return spread(expected, what)


def spread(expected: np.ndarray, what: str) -> float:
    """The standard deviation of the reference's values, the unit of differences.

    Raises ValueError, with `what` as their name, if they are all equal or not finite.
    """
    deviation = float(expected.std(dtype=np.float64))
    if not 0 < deviation < np.inf:
        raise ValueError(
            f"the reference's {what} are all equal or not finite, so nothing can be judged by them"
        )
    return deviation


def root_mean_square(errors: np.ndarray, tolerance: Numbers) -> tuple[dict[str, float], bool]:
    """(the root mean square of errors and its limit, whether it passes). Without a limit: ({},
    True).

    Rounding to bfloat16 causes single large errors. So a limit on the largest error does not
    exclude a mistake that changes all logits a little, such as another epsilon or weights that were
    int8. The root mean square shows such a mistake.

    Args:
        errors: differences of logits, in standard deviations of the reference's; any shape.
    """
    if _RMS not in tolerance:
        return {}, True
    value = float(np.sqrt(np.mean(errors**2)))
    limit = tolerance[_RMS]
    return {_RMS: value, f"{_RMS}_limit": limit}, value <= limit


def _rounded(value: object) -> object:
    if isinstance(value, Mapping):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value
