"""Turns pictures into the input of a model as the preprocessor_config.json of its folder says:
resize, centre crop, rescale, subtract a mean and divide by a deviation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from formats.workload import Config
from harness.errors import Refused
from harness.inputs import user_config

FILE = "preprocessor_config.json"
_KNOWN_STEPS = ("do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb")
_NO_CHANGE = ("do_reduce_labels",)  # of the labels of a training
_STRETCHED_FROM = 384
"""From this side on, a picture is not cropped by `crop_pct` but stretched (Transformers'
ConvNextImageProcessor).
"""
_WITHOUT_FILE = {"resample": Image.Resampling.BILINEAR, "image_mean": 0.5, "image_std": 0.5}
"""The steps of random pictures if there is no file."""
_Sides = tuple[int, int]
"""Height and width."""
PerChannel = tuple[float, ...]
"""A number for each channel of a picture."""


@dataclass(frozen=True, kw_only=True)
class Processor:
    """The steps from a picture to a model's input.

    Attributes:
        height, width, channels: of the input. `channels` is 3, or 1 for greyscale.
        stretch: (height, width) to which a picture is resized, whatever its shape; None: it keeps
            its shape.
        shorter: the length of its shorter side after it was resized, if it keeps its shape; None:
            it is not resized.
        resample: the filter, by Pillow's number.
        scale: the factor of values from 0 to 255.
        mean, std: of each channel, after `scale`.
        source: the file that has these steps; None: there is no such file, and only random inputs
            can be drawn.
    """

    height: int
    width: int
    channels: int
    stretch: _Sides | None
    shorter: int | None
    resample: Image.Resampling
    scale: float
    mean: PerChannel
    std: PerChannel
    source: Path | None

    def __call__(self, picture: Image.Image) -> np.ndarray:
        """The input of an RGB picture, float32 [channels, height, width]."""
        if self.channels == 1:
            picture = picture.convert("L")
        resized = self._cropped(self._resized(picture))
        values = np.asarray(resized, np.float32).reshape(self.height, self.width, self.channels)
        return self.normalised(values * np.float32(self.scale))

    def normalised(self, values: np.ndarray) -> np.ndarray:
        """[height, width, channels] after `scale` → float32 [channels, height, width]."""
        scaled = (values - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        return np.ascontiguousarray(scaled.transpose(2, 0, 1), np.float32)

    def _resized(self, picture: Image.Image) -> Image.Image:
        width, height = picture.size
        if self.stretch:
            height, width = self.stretch
        elif self.shorter:
            least = min(height, width)
            height = int(self.shorter * height / least)
            width = int(self.shorter * width / least)
        return picture.resize((width, height), self.resample)

    def _cropped(self, picture: Image.Image) -> Image.Image:
        """The middle of a picture. If the picture is smaller, the rest is 0."""
        left = (picture.width - self.width) // 2
        top = (picture.height - self.height) // 2
        return picture.crop((left, top, left + self.width, top + self.height))


def of_folder(path: Path, config: Config) -> Processor:
    """The steps of a folder of weights. Raises UsageError if they are not known, and if they leave
    pictures of several sizes.

    Args:
        config: its config.json, which has the size of the input if there is no FILE.
    """
    channels = config["num_channels"]
    if channels not in (1, 3):
        raise Refused(
            f"config.json says num_channels {channels}, and pictures have 3, or 1 in greyscale"
        )
    source = path / FILE if (path / FILE).is_file() else None
    if source:
        steps = user_config.load(path, FILE)
    elif "image_size" in config:
        steps = {"size": config["image_size"], **_WITHOUT_FILE}
    else:
        raise Refused(
            f"there is no {FILE} in it, and config.json has no image_size, so the size of the input"
            f" is not known: download {FILE} too"
        )
    others = [name for name in steps if name.startswith("do_") and steps[name]]
    unknown = sorted(set(others) - set(_KNOWN_STEPS) - set(_NO_CHANGE))
    if unknown:
        raise Refused(
            f"{FILE} says {unknown[0]}, and the harness knows only {', '.join(_KNOWN_STEPS)}"
        )
    try:
        return _read(source, steps, channels)
    except (KeyError, TypeError, ValueError) as e:
        raise Refused(
            f"{FILE} does not say how a picture becomes the model's input ({type(e).__name__}:"
            f" {e}): give one that save_pretrained of the image processor wrote"
        ) from None


def _read(source: Path | None, steps: Mapping[str, Any], channels: int) -> Processor:
    """Raises KeyError, TypeError or ValueError if a value is missing or of another kind."""
    stretch: _Sides | None = None
    shorter: int | None = None
    crop: _Sides | None = None
    resample = Image.Resampling.BILINEAR
    if steps.get("do_center_crop"):
        crop = _sides(steps["crop_size"])
    if steps.get("do_resize", True):
        resample = Image.Resampling(steps["resample"])
        size = steps["size"]
        keeps_shape = bool(crop) or "crop_pct" in steps
        if isinstance(size, int) and keeps_shape:
            size = {"shortest_edge": size}
        if isinstance(size, dict) and set(size) == {"shortest_edge"}:
            shorter = int(size["shortest_edge"])
        else:
            stretch = _sides(size)
    if shorter and steps.get("crop_pct"):
        crop = crop or (shorter, shorter)
        if shorter < _STRETCHED_FROM:
            shorter = int(shorter / steps["crop_pct"])
        else:
            stretch = (shorter, shorter)
    sides = crop or stretch
    if sides is None:
        raise ValueError("pictures keep several sizes")
    mean: PerChannel = (0.0,)
    std: PerChannel = (1.0,)
    if steps.get("do_normalize", True):
        mean = _each(steps["image_mean"], channels)
        std = _each(steps["image_std"], channels)
    scale = 1.0
    if steps.get("do_rescale", True):
        scale = float(steps.get("rescale_factor", 1 / 255))
    return Processor(
        height=sides[0],
        width=sides[1],
        channels=channels,
        stretch=stretch,
        shorter=shorter,
        resample=resample,
        scale=scale,
        mean=mean,
        std=std,
        source=source,
    )


def _sides(value: Any) -> _Sides:
    """(height, width) of a whole number, a list of two, or a table with `height` and `width`."""
    if isinstance(value, dict):
        return int(value["height"]), int(value["width"])
    if isinstance(value, list):
        height, width = value
        return int(height), int(width)
    return int(value), int(value)


def _each(value: Any, channels: int) -> PerChannel:
    """One number, or one for each channel."""
    numbers = value if isinstance(value, list) else [value]
    if len(numbers) not in (1, channels):
        raise ValueError(f"{len(numbers)} numbers for {channels} channels")
    return tuple(map(float, numbers))
