"""This module writes and reads images/ of a run directory: the first images that a model made."""

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
from scenarios.worker.job import write_json

FOLDER = "images"
_LIST, _SAMPLES, _SIDE, _QUALITY = "images.json", 3, 288, 85


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One image.

    Attributes:
        file: the picture, in the same folder, at most 288 pixels wide.
        psnr: of the whole image beside the reference's, in decibels.
    """

    file: str
    psnr: float


def write(directory: Path) -> None:
    """Keep the first images of the accuracy test. No reference: none is kept.

    Args:
        directory: of a run whose accuracy test ended well.
    """
    if not (directory / "reference.npz").exists():
        return
    answers = logs.read_accuracy(directory / "raw" / "accuracy" / "mlperf_log_accuracy.json").payloads
    folder = directory / FOLDER
    folder.mkdir(exist_ok=True)
    with np.load(directory / "reference.npz") as reference:
        expected = {name: reference[name][:_SAMPLES] for name in ("image", "latents")}
    shown = []
    for i in (i for i in range(len(expected["image"])) if i in answers):
        image = split(answers, i, {name: array[i] for name, array in expected.items()})["image"]
        picture = Image.fromarray(image)
        picture.thumbnail((_SIDE, _SIDE))
        picture.save(folder / f"{i + 1}.jpg", quality=_QUALITY)
        shown.append(Shown(file=f"{i + 1}.jpg", psnr=round(psnr(image, expected["image"][i]), 2)))
    write_json(folder / _LIST, {"samples": [asdict(each) for each in shown]})


def read(directory: Path) -> list[tuple[Shown, bytes]]:
    """The samples of a run directory with their JPEG files; none where it holds none, or some that cannot be read."""
    folder = directory / FOLDER
    try:
        document: Any = json.loads((folder / _LIST).read_text(encoding="utf-8"))
        samples = [Shown(**sample) for sample in document["samples"]]
        return [(sample, (folder / Path(sample.file).name).read_bytes()) for sample in samples]
    except (OSError, ValueError, KeyError, TypeError):
        return []
