"""The pictures of ImageNet's validation set, prepared as by MLPerf's reference for resnet.

The reference has two ways, for the weights of TensorFlow and for those of PyTorch
(vision/classification_and_detection/python/dataset.py of mlcommons/inference, `pre_process_vgg`
and `pre_process_imagenet_pytorch`). Both resize the shorter side to 256 pixels and keep the middle
of 224 × 224. They differ in the filter, and in the mean and the deviation of colours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from compliance.scoring import imagenet
from formats import bounds
from formats.workload import Config
from harness.errors import Refused, UsageError
from harness.execution.user_files import AREA, Program
from harness.inputs import picture_processor, pictures
from sut.user_files import resized_shape

SIDE = 224
CHANNELS = 3


Resized = Callable[[np.ndarray], np.ndarray]
"""A picture, uint8 [height, width, 3] → the picture with a shorter side of 256."""


@dataclass(frozen=True)
class Preparation:
    """One of the reference's two ways.

    Attributes:
        resizes: opens what resizes pictures.
        rounded: rounds the place of the middle.
        mean, deviation: of each colour, in units of the uint8 values.
        words: the filter, the mean and the deviation, for a reader.
    """

    resizes: Callable[[], AbstractContextManager[Resized]]
    rounded: Callable[[float], int]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    words: str

    def cropped(self, resized: np.ndarray) -> np.ndarray:
        """The middle of a resized picture, uint8 [SIDE, SIDE, 3]."""
        top, left = (self.rounded((length - SIDE) / 2) for length in resized.shape[:2])
        return resized[top : top + SIDE, left : left + SIDE]


def _by_pillow(picture: np.ndarray) -> np.ndarray:
    height, width = resized_shape(picture)
    resized = Image.fromarray(picture).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(resized)


OF_TENSORFLOW = Preparation(
    lambda: Program(AREA, {}),
    int,
    mean=(123.68, 116.78, 103.94),
    deviation=(1.0, 1.0, 1.0),
    words="by OpenCV's INTER_AREA, minus the mean (123.68, 116.78, 103.94)",
)
OF_PYTORCH = Preparation(
    lambda: nullcontext(_by_pillow),
    round,
    mean=tuple(255 * mean for mean in (0.485, 0.456, 0.406)),
    deviation=tuple(255 * deviation for deviation in (0.229, 0.224, 0.225)),
    words="by Pillow's BILINEAR, mean (0.485, 0.456, 0.406), deviation (0.229, 0.224, 0.225)",
)


def preparation(weights: Path, config: Config) -> Preparation:
    """The way for the weights of a folder: that with the mean and the deviation of its
    preprocessor_config.json. Without this file it is that of TensorFlow, whose weights set the
    target of the benchmark. Raises UsageError for another mean or deviation.
    """
    if not (weights / picture_processor.FILE).is_file():
        return OF_TENSORFLOW
    own = picture_processor.of_folder(weights, config)
    if (own.height, own.width) != (SIDE, SIDE):
        raise Refused(
            f"{picture_processor.FILE} makes pictures of {own.height} x {own.width}, and the"
            f" benchmark has {SIDE} x {SIDE}: give weights for this size"
        )
    for way in (OF_TENSORFLOW, OF_PYTORCH):
        same_mean = np.allclose(np.array(own.mean) / own.scale, way.mean, rtol=1e-4)
        same_deviation = np.allclose(np.array(own.std) / own.scale, way.deviation, rtol=1e-4)
        if own.channels == CHANNELS and same_mean and same_deviation:
            return way
    raise Refused(
        f"{picture_processor.FILE} has another mean or deviation of colours than MLPerf's"
        f" reference, which prepares pictures {OF_TENSORFLOW.words}, or {OF_PYTORCH.words}: give"
        " weights that were trained with one of them"
    )


def listed(folder: Path) -> tuple[bytes, dict[str, int]]:
    """(the content of val_map.txt in the folder or next to it, the name of each of its pictures →
    its class). Raises UsageError.
    """
    wanted = f"the folder with ImageNet's validation pictures and {imagenet.LIST}"
    pictures.check_folder(folder, wanted)
    places = [place / imagenet.LIST for place in (folder, folder.absolute().parent)]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise UsageError(
            f"--dataset {folder}: there is no {imagenet.LIST} in it or next to it, which has the"
            " name of each picture and the number of its class: copy it there"
        )
    try:
        content = bounds.content(file, bounds.JSON)
        return content, imagenet.parse(content)
    except OSError as e:
        raise UsageError(f"--dataset {folder}: {file} cannot be read ({e.strerror})") from None
    except ValueError as e:
        raise UsageError(f"--dataset {folder}: {e}") from None


def check(folder: Path, labels: Mapping[str, int], classes: int) -> None:
    """Raises UsageError if the model does not have the class of a picture, or if a picture of the
    list is not in the folder.
    """
    for name, label in labels.items():
        if label >= classes:
            raise UsageError(
                f"--dataset {folder}: {imagenet.LIST} gives {name} the class {label}, and the model"
                f" has {classes} classes, which are counted from 0"
            )
    missing = [name for name in labels if not (folder / name).is_file()]
    if missing:
        raise UsageError(
            f"--dataset {folder}: {len(missing)} of the {len(labels)} pictures of {imagenet.LIST}"
            f" are not in it, the first is {missing[0]}: copy them there, or take them out of the"
            " list"
        )


def read(folder: Path, labels: Mapping[str, int], way: Preparation) -> np.ndarray:
    """The pictures in the order of the list, uint8 [pictures, 3, SIDE, SIDE]. Raises UsageError
    with the name of a file that is no picture or too large.
    """
    pictures.check_memory(folder, len(labels), CHANNELS * SIDE * SIDE)
    prepared = np.empty((len(labels), CHANNELS, SIDE, SIDE), np.uint8)
    with way.resizes() as resized, ThreadPoolExecutor() as pool:

        def prepare(name: str) -> np.ndarray:
            picture = np.asarray(pictures.opened(folder / name))
            return way.cropped(resized(picture)).transpose(2, 0, 1)

        for number, row in enumerate(pool.map(prepare, labels)):
            prepared[number] = row
    return prepared
