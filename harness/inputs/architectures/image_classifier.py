"""The inputs of MLPerf's resnet: `pixel_values`, uint8 [samples, 3, 224, 224], with the `mean` and
the `deviation` that a SUT subtracts and divides by, float32 [samples, 3].

8 bits keep 50,000 pictures small. Subtracting the mean is part of the measured call. An answer is
the likeliest class, because its choice must be measured, too (MLPerf inference rules,
"post-processing").
"""

from __future__ import annotations

import numpy as np

from harness.inputs import depth_limits, imagenet
from harness.inputs.architectures import (
    Architecture,
    Arrays,
    Counted,
    Description,
    Noted,
    UserFile,
    seeded,
)
from harness.inputs.depth_limits import Limits
from harness.inputs.imagenet import CHANNELS, SIDE, Preparation
from harness.inputs.models import Size
from sut.contract import Batch

_MOST_SYNTHETIC = 1024
"""Random pictures only warm up and calibrate. All cost the same."""


def _synthetic(size: Size, samples: int, stream: int) -> Arrays:
    rng = seeded(stream)
    shape = (samples, CHANNELS, SIDE, SIDE)
    return _arrays(rng.integers(0, 256, shape, np.uint8), size)


def _synthetic_like(arrays: Arrays, size: Size, stream: int) -> Counted:
    count = min(len(arrays["pixel_values"]), _MOST_SYNTHETIC)
    return _synthetic(size, count + 1, stream), 1


def _arrays(pixel_values: np.ndarray, size: Size) -> Arrays:
    way: Preparation = size.inputs["preparation"]
    shape = (len(pixel_values), CHANNELS)
    return {
        "pixel_values": pixel_values,
        "mean": np.broadcast_to(np.array(way.mean, np.float32), shape),
        "deviation": np.broadcast_to(np.array(way.deviation, np.float32), shape),
    }


def _describe(arrays: Arrays) -> Description:
    """The shape of a picture, and the mean and the deviation, which all pictures share."""
    config = {name: arrays[name][0].tolist() for name in ("mean", "deviation")}
    return Description(config={"pixel_shape": list(arrays["pixel_values"].shape[1:]), **config})


def _read(given: UserFile) -> Noted:
    way: Preparation = given.size.inputs["preparation"]
    pixel_values = imagenet.read(given.path, imagenet.listed(given.path)[1], way)
    note = (
        f"{given.path.name}: {len(pixel_values)} pictures of the list, cropped to 224 x 224,"
        f" prepared as by MLPerf's reference: {way.words}"
    )
    return _arrays(pixel_values, given.size), (note,)


def _limits(size: Size, precision: str, reference: Batch) -> Limits:
    """The share of equal classes. Nothing is judged if the reference has one class for all."""
    labels = reference["label"]
    if (labels == labels[0]).all():
        return {}, (
            f"the reference gives all pictures the class {int(labels[0, 0])}, so other answers"
            " cannot be told from right ones: give other weights or other pictures"
        )
    return depth_limits.of_weights(size, precision, reference)


ARCHITECTURE = Architecture(
    synthetic=_synthetic,
    synthetic_like=_synthetic_like,
    describe=_describe,
    read=_read,
    count=lambda path: len(imagenet.listed(path)[1]),
    weights_inputs=lambda path, model, config, own: {
        "preparation": imagenet.preparation(path, config)
    },
    limits=_limits,
)
