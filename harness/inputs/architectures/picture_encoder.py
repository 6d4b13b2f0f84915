"""The inputs of a model of pictures in a user's folder: `pixel_values`, float32 [samples, channels,
height, width], normalised as its preprocessor_config.json says.

Its answers are logits, or hidden states if it has no head.
"""

from __future__ import annotations

import numpy as np

from harness.errors import Refused
from harness.inputs import depth_limits, picture_processor, pictures
from harness.inputs.architectures import (
    Architecture,
    Arrays,
    Description,
    Noted,
    UserFile,
    seeded,
)
from harness.inputs.models import Size
from harness.inputs.picture_processor import Processor


def _synthetic(size: Size, samples: int, stream: int) -> Arrays:
    processor: Processor = size.inputs["processor"]
    rng = seeded(stream)
    rows = []
    for _ in range(samples):
        picture = 255 * pictures.drawn(processor.height, processor.width, rng)
        scaled = picture[..., : processor.channels] * processor.scale
        rows.append(processor.normalised(scaled))
    return {"pixel_values": np.stack(rows)}


def _read(given: UserFile) -> Noted:
    processor: Processor = given.size.inputs["processor"]
    if processor.files is None:
        raise Refused(
            f"the weights have no {picture_processor.FILE}, which says how a picture becomes the"
            " model's input: download it too"
        )
    picture_bytes = 4 * processor.channels * processor.height * processor.width
    pictures.check_memory(given.path, len(pictures.files(given.path)), picture_bytes)
    rows = processor.read(given.path)
    note = (
        f"{given.path.name}: {len(rows)} pictures, made {processor.height} x {processor.width} as"
        f" {picture_processor.FILE} of the weights says"
    )
    return {"pixel_values": rows}, (note,)


def _describe(arrays: Arrays) -> Description:
    return Description(config={"pixel_shape": list(arrays["pixel_values"].shape[1:])})


ARCHITECTURE = Architecture(
    synthetic=_synthetic,
    describe=_describe,
    read=_read,
    count=lambda path: len(pictures.files(path)),
    weights_inputs=lambda path, model, config, own: {
        "processor": picture_processor.of_folder(path, config)
    },
    limits=depth_limits.of_weights,
)
