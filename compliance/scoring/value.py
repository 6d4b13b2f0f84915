"""The classes of a score and of an official metric, and the unit of differences."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

AnswerBytes = Mapping[int, bytes]
"""Index of a sample → its answer, as LoadGen logged it."""
Arrays = Mapping[str, np.ndarray]

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
    detail: Mapping[str, float]

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


@dataclass(frozen=True)
class Scored:
    """The official metric of a run's answers.

    Attributes:
        values: metric, by its name in the rules of a round → its value.
        printed: the line that the official script prints.
    """

    values: Mapping[str, float]
    printed: str

    def line(self) -> str:
        """Return the line of accuracy.txt."""
        return self.printed


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


def _rounded(value: object) -> object:
    if isinstance(value, Mapping):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value
