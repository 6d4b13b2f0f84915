"""Turns pictures into the input of a model as Transformers does by the preprocessor_config.json of
a user's folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from formats import bounds
from formats.workload import Config
from harness.errors import Refused
from harness.execution import user_files
from harness.execution.user_files import Program, Stopped
from harness.inputs import pictures, user_config

FILE = "preprocessor_config.json"
_WITHOUT_FILE = {"scale": 1 / 255, "mean": 0.5, "std": 0.5}
"""The values of random pictures if there is no file."""


@dataclass(frozen=True, kw_only=True)
class Processor:
    """The input that pictures become.

    Attributes:
        height, width, channels: of the input. `channels` is 3, or 1 for greyscale.
        scale: the factor of values from 0 to 255.
        mean, std: of all channels or each, after `scale`.
        files: the folder's files that decide; None: there is no FILE, and only random inputs can
            be drawn.
    """

    height: int
    width: int
    channels: int
    scale: float
    mean: Any
    std: Any
    files: dict[str, bytes] | None

    def normalised(self, values: np.ndarray) -> np.ndarray:
        """[height, width, channels] after `scale` → float32 [channels, height, width]."""
        scaled = (values - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        return np.ascontiguousarray(scaled.transpose(2, 0, 1), np.float32)

    def read(self, folder: Path) -> np.ndarray:
        """The inputs of a folder's pictures, float32 [pictures, channels, height, width]. They are
        kept. Raises UsageError with the name of a file that is no picture or too large.
        """
        files = self.files or {}

        def make() -> np.ndarray:
            with Program("pixels", files) as ask:
                return np.stack([ask(self._values(each)) for each in pictures.upright(folder)])

        contents = (bounds.content(path, bounds.PLAIN) for path in pictures.files(folder))
        made: np.ndarray = user_files.kept("pixels", files, contents, make)
        return made

    def _values(self, picture: Image.Image) -> np.ndarray:
        """uint8 [height, width, channels]."""
        if self.channels == 1:
            picture = picture.convert("L")
        return np.asarray(picture).reshape(picture.height, picture.width, self.channels)


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
    if (path / FILE).is_file():
        user_config.load(path, FILE)  # names a fault of the file
        files = user_files.contents(path, ("config.json", FILE), bounds.JSON)
        try:
            steps = user_files.answer("pixels", files, channels)
        except Stopped as e:
            raise Refused(
                f"{FILE} does not say how a picture becomes the model's input ({e}): give one that"
                " save_pretrained of the image processor wrote"
            ) from None
        return Processor(channels=channels, files=files, **steps)
    if "image_size" not in config:
        raise Refused(
            f"there is no {FILE} in it, and config.json has no image_size, so the size of the input"
            f" is not known: download {FILE} too"
        )
    height, width = np.broadcast_to(config["image_size"], 2).tolist()
    return Processor(height=height, width=width, channels=channels, files=None, **_WITHOUT_FILE)
