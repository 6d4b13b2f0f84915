"""The limits of an accuracy test. They are derived from measured differences between honest SUTs
and the reference (disagreement.toml).
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness.inputs.models import Model, Size
from sut.registry import adamw_of, framework_of

DATA = Path(__file__).with_name("disagreement.toml")
FACTOR = {"float32": 10.0, "tf32": 3.0, "bfloat16": 3.0, "float16": 3.0}
"""Precision → limit over the largest measured disagreement. Another machine sums in another order,
and more inputs may include a worse one. Lower precisions need a smaller factor, because rounding
the weights causes most of their error and is the same everywhere.
"""
RMS_FACTOR = 1.3
"""Limit over the largest measured root mean square of the same framework, in bfloat16. It varies
less than a largest error: by a factor of up to 1.15 between eight sets of 64 inputs, and of 1.5 for
sets of eight inputs.
"""
_Row = Mapping[str, Any]
"""A measured disagreement."""
_RMS = "logit_rms"
_RMS_SAMPLES = 64
_UNMEASURED = 2.0
_LARGEST_SIZE = "mid"
_DEVICE = "cpu"
# tf32 and float16 have three bits more than bfloat16. tf32 was never measured, because no CPU has
# it. float16 was not measured for every model.
_LIKE = {"tf32": ("bfloat16", 1 / 8), "float16": ("bfloat16", 1 / 8)}
# The loss that is allowed even if none was measured. Of 64 answers two may differ from the
# reference at a near tie of their first token. Of a thousand tokens one may differ by the rounding
# of two forward passes, and so may single pixels of a mask.
_SPARE = {
    "compared_fraction": 2 / 64,
    "argmax_fraction": 1e-3,
    "mask_mean_iou": 1e-3,
    "mask_smallest_iou": 1e-2,
}


@cache
def measurements(kind: str = "measured") -> tuple[_Row, ...]:
    """The measured disagreements: one mapping for each honest SUT, model, size, precision and
    device, written by benchmarks/disagreement.py.

    Args:
        kind: `measured`: of answers; `trained`: of losses.
    """
    return tuple(tomllib.loads(DATA.read_text(encoding="utf-8")).get(kind, ()))


def limits(
    model: Model, size: Size, precision: str, device: str, sut: str = "", samples: int = 0
) -> dict[str, float]:
    """The limits of one cell, by name.

    Each is FACTOR times the largest measured disagreement of this model, size, precision and
    device. If that was not measured, it is twice that of size mid on a CPU, and more in proportion
    to the number of layers. An unlisted model has the measurements of another one (`Model.like`),
    and more in proportion to the root of its width. No limit is looser than the model's
    (`answer.tolerance`), which is the only limit if the model was not measured. Measurements of
    long answers count only if the answers are longer than the size's.

    `logit_rms` is RMS_FACTOR times the largest value of the SUTs on the same framework, because
    frameworks round at different places. It is limited only if that was measured and there are
    enough samples.

    Args:
        sut: the SUT whose framework counts for `logit_rms`; empty: no such limit.
        samples: the number of inputs whose answers are compared.
    """
    loosest = model.tolerance[precision]
    same = _rows(model, precision, size.name, device)
    own = model.sizes.get(size.name, size)
    longer = size.inputs.get("new_tokens", 0) > own.inputs.get("new_tokens", 0)
    if not longer:
        same = [row for row in same if "new_tokens" not in row]
    share = 1.0
    rows = same or _rows(model, precision, _LARGEST_SIZE, _DEVICE)
    if not rows and precision in _LIKE:
        like, share = _LIKE[precision]
        rows = _rows(model, like, _LARGEST_SIZE, _DEVICE)
    if not rows:
        return {name: bound for name, bound in loosest.items() if name != _RMS}
    room = 1.0 if same else _UNMEASURED * _over_measured(model, size, "num_hidden_layers")
    if model.like:
        # The rounding error of a sum grows with the root of its length.
        room *= math.sqrt(_over_measured(model, size, "hidden_size"))
    factor = FACTOR[precision] * room
    derived = {}
    for name, bound in loosest.items():
        if name != _RMS:
            derived[name] = _limit(name, bound, rows, factor, share)
            continue
        largest = _largest_rms(rows, sut, longer) if samples >= _RMS_SAMPLES else 0.0
        if largest:
            derived[name] = min(bound, _three_digits(RMS_FACTOR * room * largest))
    return derived


def of_quantized(model: Model) -> dict[str, float]:
    """The limits of a cell with quantised weights, by name: the model's loosest ones in bfloat16.
    The root mean square has no limit, because it was measured only for rounding to bfloat16.
    """
    return {name: bound for name, bound in model.tolerance["bfloat16"].items() if name != _RMS}


def _limit(name: str, bound: float, rows: Sequence[_Row], factor: float, share: float) -> float:
    """The limit of this name, from the measurements in `rows`. It is not looser than `bound`.

    Args:
        factor: the limit over the largest measured disagreement.
        share: error of the cell's precision over that of the measured precision.
    """
    if name.endswith(("_error", "_gap")):
        # An honest SUT's gap is at most twice its logit error.
        measured = "logit_error" if name == "logit_gap" else name
        largest = max(row[measured] for row in rows)
        return min(bound, _three_digits(share * factor * largest))
    if name.endswith("_psnr"):
        # These are decibels of a mean square: an error `factor` times as large has
        # 20 log10(factor) less.
        smallest = min(row[name] for row in rows)
        return max(bound, round(smallest - 20 * math.log10(share * factor), 1))
    if name in _SPARE:
        loss = max(1 - row[name] for row in rows)
        allowed = max(_SPARE[name], factor * loss)
        return max(bound, round(1 - allowed, 4))
    return bound


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}")


def _largest_rms(rows: Sequence[_Row], sut: str, longer: bool) -> float:
    """The largest `logit_rms` of the SUTs on the same framework as `sut`; 0 if none was measured.

    Args:
        longer: whether the answers are longer than the size's. Then long answers must have been
            measured.
    """
    framework = framework_of(sut)
    of_framework = [
        row for row in rows if framework and framework_of(row["sut"]) == framework and _RMS in row
    ]
    if longer and not any("new_tokens" in row for row in of_framework):
        return 0.0
    return max((row[_RMS] for row in of_framework), default=0.0)


def of_training(
    model: Model, size: Size, precision: str, device: str, sut: str
) -> dict[str, float]:
    """The limits of the losses and updates of a training, by name, derived in the same way from
    SUTs whose AdamW adds epsilon at the same place.
    """
    loosest = dict(model.fit["tolerance"][precision])

    def measured(*place: str) -> list[_Row]:
        rows = _rows(model, precision, *place, kind="trained")
        return [row for row in rows if adamw_of(row["sut"]) == adamw_of(sut)]

    same = measured(size.name, device)
    rows = same or measured(_LARGEST_SIZE, _DEVICE)
    if not rows:
        return loosest
    factor = FACTOR[precision] * (
        1.0 if same else _UNMEASURED * _over_measured(model, size, "num_hidden_layers")
    )
    derived = {}
    for name, bound in loosest.items():
        largest = max((row.get(name, 0.0) for row in rows), default=0.0)
        # If all honest SUTs agree to the last digit, the model's limit counts, because another
        # machine may differ.
        derived[name] = min(bound, _three_digits(factor * largest)) if largest else bound
    return derived


def _rows(model: Model, *place: str, kind: str = "measured") -> list[_Row]:
    keys = ("model", "task", "precision", "size", "device")
    cell = (model.like or model.name, model.second_task, *place)
    return [row for row in measurements(kind) if tuple(map(row.get, keys)) == cell]


def _over_measured(model: Model, size: Size, key: str) -> float:
    """A number of a size over that of the largest measured size; at least 1. A model of pictures
    has no number of layers, and its answers are judged by other limits.
    """
    measured = model.sizes[_LARGEST_SIZE].config[key]
    ratio = float(size.config.get(key, measured) / measured)
    return max(1.0, ratio)
