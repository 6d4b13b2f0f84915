"""The first images that a model generated, in `images/` of a run directory."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from compliance import logs
from compliance.scoring.arrays import psnr
from compliance.scoring.payload import split
from formats.writing import write_json

FOLDER = "images"
_SIDE = 288
"""The longest side of a picture, in pixels."""
_SAMPLES = 3
"""The most pictures of a run."""
_QUALITY = 85
_ANSWER = ("image", "latents")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One image.

    Attributes:
        file: the picture, in the same folder, at most 288 pixels wide.
        psnr: PSNR of the whole image compared with the reference's, in decibels.
    """

    file: str
    psnr: float

    @property
    def caption(self) -> str:
        """The distance of the image from the reference's, in words."""
        return f"{self.psnr:.1f} dB compared with the reference's image (100: equal)"


def write(directory: Path) -> None:
    """Keep the first images of the accuracy test as JPEG files, with a list of them.

    A sample is left out if its answer has another size than the reference's. Without a reference no
    image is kept.

    Args:
        directory: folder of a run whose accuracy test ended well.
    """
    if not (directory / "reference.npz").exists():
        return
    log = logs.read_accuracy(directory / "raw" / "accuracy" / "mlperf_log_accuracy.json")
    with np.load(directory / "reference.npz") as reference:
        expected = {name: reference[name][:_SAMPLES] for name in _ANSWER}
    folder = directory / FOLDER
    samples = []
    for i in range(len(expected["image"])):
        row = {name: array[i] for name, array in expected.items()}
        try:
            image = split(log.payloads, i, row)["image"]
        except (KeyError, ValueError):
            continue
        shown = Shown(file=f"{i + 1}.jpg", psnr=round(psnr(image, row["image"]), 2))
        picture = Image.fromarray(image)
        picture.thumbnail((_SIDE, _SIDE))
        folder.mkdir(exist_ok=True)
        picture.save(folder / shown.file, quality=_QUALITY)
        samples.append(asdict(shown))
    if samples:
        write_json(folder / "images.json", {"samples": samples})


def read(directory: Path) -> list[tuple[Shown, bytes]]:
    """Return the samples of a run directory, each with its JPEG file.

    The list is empty if there is no folder, or if one of its files cannot be read.
    """
    folder = directory / FOLDER
    found = []
    try:
        document: Any = json.loads((folder / "images.json").read_text(encoding="utf-8"))
        for values in document["samples"]:
            jpeg = (folder / Path(values["file"]).name).read_bytes()
            found.append((Shown(**values), jpeg))
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return found
