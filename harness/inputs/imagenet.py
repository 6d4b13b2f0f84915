"""The pictures of ImageNet's validation set, prepared as by MLPerf's reference for resnet.

The reference has two ways, for the weights of TensorFlow and for those of PyTorch
(vision/classification_and_detection/python/dataset.py of mlcommons/inference, `pre_process_vgg`
and `pre_process_imagenet_pytorch`). Both resize the shorter side to 256 pixels and keep the middle
of 224 × 224. They differ in the filter, and in the mean and the deviation of colours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from compliance.scoring import imagenet
from formats import bounds
from formats.workload import Config
from harness.errors import Refused, UsageError
from harness.inputs import area_resize, picture_processor, pictures
from harness.inputs.picture_processor import PerChannel

SIDE = 224
CHANNELS = 3
_SHORTER = 256


@dataclass(frozen=True)
class Preparation:
    """One of the reference's two ways.

    Attributes:
        cropped: an RGB picture → its resized middle, uint8 [SIDE, SIDE, 3].
        mean, deviation: of each colour, in units of the uint8 values.
        words: the filter, the mean and the deviation, for a reader.
    """

    cropped: Callable[[Image.Image], np.ndarray]
    mean: PerChannel
    deviation: PerChannel
    words: str

    def __call__(self, path: Path) -> np.ndarray:
        """The picture of a file, uint8 [3, SIDE, SIDE]. Raises UsageError if it is none."""
        return self.cropped(pictures.opened(path)).transpose(2, 0, 1)


def _by_area(picture: Image.Image) -> np.ndarray:
    tall, wide = _resized_shape(picture)
    rows, columns = (_middle(int((length - SIDE) / 2)) for length in (tall, wide))
    return area_resize.resized(np.asarray(picture), tall, wide, rows, columns)


def _by_pillow(picture: Image.Image) -> np.ndarray:
    tall, wide = _resized_shape(picture)
    resized = picture.resize((wide, tall), Image.Resampling.BILINEAR)
    rows, columns = (_middle(round((length - SIDE) / 2)) for length in (tall, wide))
    return np.asarray(resized)[rows, columns]


def _resized_shape(picture: Image.Image) -> tuple[int, int]:
    """The height and the width to which a picture is resized."""
    width, height = picture.size
    if height > width:
        return int(_SHORTER * height / width), _SHORTER
    return _SHORTER, int(_SHORTER * width / height)


def _middle(first: int) -> slice:
    return slice(first, first + SIDE)


OF_TENSORFLOW = Preparation(
    _by_area,
    mean=(123.68, 116.78, 103.94),
    deviation=(1.0, 1.0, 1.0),
    words="by OpenCV's INTER_AREA, minus the mean (123.68, 116.78, 103.94)",
)
OF_PYTORCH = Preparation(
    _by_pillow,
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
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "there is no such folder"
        raise UsageError(
            f"--dataset {folder}: {what}; give the folder with ImageNet's validation pictures and"
            f" {imagenet.LIST}"
        )
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
    with ThreadPoolExecutor() as pool:
        for number, row in enumerate(pool.map(way, (folder / name for name in labels))):
            prepared[number] = row
    return prepared
