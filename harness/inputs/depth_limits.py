"""The limits of answers of a model for which no disagreement was measured.

A chain of L layers, each of which rounds its values by u, has errors of about u · √L · the largest
value. Honest SUTs with BERT show 1 to 3 times as much. An error counts in the unit of its place
(`compliance.scoring.value.units`). Nothing is judged if rounding by itself exceeds the limit, or if
an answer that ignores its inputs would pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from compliance import rules
from compliance.scoring import value
from compliance.scoring.arrays import IS_TOKEN
from harness.inputs.models import Size
from sut.contract import Batch

Limits = tuple[dict[str, float], str]
"""The limits of the answers by name, and why the reference cannot judge answers; empty: it can."""
ROUNDOFF = {"float32": 2.0**-24, "tf32": 2.0**-11, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The unit roundoff of each precision."""
# The limit over the error that these roundings cause in a chain of layers. Sums of products add to
# the error of float32.
_FACTOR = {"float32": 30.0, "tf32": 3.0, "float16": 3.0, "bfloat16": 3.0}
ROUNDINGS = {"float32": 10.0, "tf32": 1.0}
"""Roundings of the largest value in an honest answer, at least."""
_ROUNDINGS_OF_LAYERS = 0.5
"""The same in bfloat16 and float16, over the root of the number of layers. PyTorch's models of
pictures of full size have 0.3 to 0.55 in bfloat16.
"""


def limits(keys: Iterable[str], layers: int, precision: str, reference: Batch) -> Limits:
    """(The limits of the answers by name, why the reference cannot judge answers or an empty text).

    No limit is looser than the audit accepts.

    Args:
        keys: the names of the answers, which are judged by the score `arrays`.
        layers: the layers that an input passes.
        reference: the answers of the reference. If `is_token` is among them, the others count only
            there.
    """
    allowed = rules.load(rules.CURRENT).project_limits.tolerance["arrays"][precision]
    most = allowed.at_most["*_error"]
    depth = math.sqrt(layers)
    roundings = ROUNDINGS.get(precision, _ROUNDINGS_OF_LAYERS * depth)
    made: dict[str, float] = {}
    is_token = reference.get(IS_TOKEN)
    judges = False
    for key in keys:
        answers = value.counted(reference[key], is_token)
        if answers.dtype.kind == "f" and not np.isfinite(answers).all():
            return {}, (
                f"the answers {key} of the reference are not all finite: give real inputs with"
                " --dataset"
            )
        ratio = _largest_in_units(answers)
        if roundings * ROUNDOFF[precision] * ratio > most:
            return {}, (
                f"the answers {key} to these inputs hardly differ (the largest is {ratio:.2g}"
                " standard deviations), so rounding alone could exceed any limit: give real"
                " inputs with --dataset, or --precision float32"
            )
        error = _FACTOR[precision] * ROUNDOFF[precision] * depth * ratio
        limit = min(most, float(f"{error:.3g}"))
        made[f"{key}_error"] = limit
        for pattern, least in allowed.at_least.items():
            made[f"{key}{pattern[1:]}"] = least
        judges = judges or _differs(answers, limit)
    if not judges:
        return {}, (
            "the answers of the reference to different inputs hardly differ, so an answer that"
            " ignores its input would pass: give real inputs with --dataset, two at least"
        )
    return made, ""


def of_weights(size: Size, precision: str, reference: Batch) -> Limits:
    """An `Architecture.limits` for a folder of weights. Each tensor of two axes or more counts as a
    layer.
    """
    keys = [key for key in reference if key != IS_TOKEN]
    layers = sum(len(tensor.shape) > 1 for tensor in size.tensors)
    return limits(keys, layers, precision, reference)


def _largest_in_units(answers: np.ndarray) -> float:
    """The largest value over the unit of its place; 1 for whole numbers."""
    if answers.dtype.kind != "f":
        return 1.0
    unit = value.units(answers, 0.0, "answers")
    largest = value.largest_magnitudes(answers)
    return float((largest / unit).max())


def _differs(answers: np.ndarray, limit: float) -> bool:
    """Whether the mean over the samples, which ignores the inputs, would not pass as an answer."""
    if answers.dtype.kind != "f":
        return bool((answers != answers[0]).any())
    allowed = limit * value.units(answers, limit, "answers")
    return bool((value.largest_deviations(answers) > allowed).any())
