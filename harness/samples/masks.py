"""The first masks of a segmenting model, drawn over their images in `masks/` of a run directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from harness.samples import pictures
from harness.samples.pictures import SIDE, Arrays

FOLDER = "masks"
LEGEND = (
    "Orange: the mask that the model itself scores highest. Green points are of the object, red"
    " ones of its background."
)
_ANSWER = ("mask", "logits", "score")
_MASK = (255, 140, 0)
_OBJECT = (0, 200, 80)
_BACKGROUND = (220, 30, 30)
_OPACITY = 0.55
_RADIUS = 5


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One sample, with the mask that the model itself scores highest.

    Attributes:
        file: the picture, in the same folder.
        mask: number of the mask, from 1.
        masks: the number of masks in an answer.
        score, reference_score: scores of that mask.
        iou: intersection over union of that mask with the reference's.
    """

    file: str
    mask: int
    masks: int
    score: float
    reference_score: float
    iou: float

    @property
    def caption(self) -> str:
        """The mask and its scores in words."""
        scores = f"score {self.score:.3f} (reference {self.reference_score:.3f})"
        distance = f"IoU with the reference's {self.iou:.4f}"
        return f"mask {self.mask} of {self.masks}, {scores}, {distance}"


def write(directory: Path, inputs: Path, padding: tuple[float, float, float]) -> None:
    """Draw the first samples of the accuracy test. Nothing is drawn without a reference.

    Args:
        directory: folder of a run whose accuracy test ended well.
        inputs: the .npz that every SUT read.
        padding: the colour that fills up the images, red, green and blue from 0 to 1.
    """
    pictures.write(directory / FOLDER, _drawn(directory, inputs, padding))


def read(directory: Path) -> list[tuple[Drawn, bytes]]:
    """Return the samples of a run directory, each with its JPEG file."""
    return pictures.read(directory / FOLDER, Drawn)


def _drawn(
    directory: Path,
    inputs: Path,
    padding: tuple[float, float, float],
) -> Iterator[tuple[Drawn, Image.Image]]:
    with np.load(inputs) as arrays:
        first = {name: arrays[name][: pictures.SAMPLES] for name in arrays.files}
    for i, answer, reference in pictures.answers(directory, _ANSWER):
        best = int(answer["score"].argmax())
        mask = answer["mask"][best]
        sample = Drawn(
            file=f"{i + 1}.jpg",
            mask=best + 1,
            masks=len(answer["score"]),
            score=round(float(answer["score"][best]), 4),
            reference_score=round(float(reference["score"][best]), 4),
            iou=round(_iou(mask, reference["mask"][best]), 5),
        )
        row = {name: array[i] for name, array in first.items()}
        yield sample, _picture(row, mask, padding)


def _iou(mask: np.ndarray, other: np.ndarray) -> float:
    union = int((mask | other).sum())
    return int((mask & other).sum()) / union if union else 1.0


def _picture(sample: Arrays, mask: np.ndarray, padding: tuple[float, float, float]) -> Image.Image:
    """Return the image with the mask, the points and the box, without the padding."""
    image = sample["image"]
    is_image = (image != np.array(padding, np.float32)).any(axis=2)
    width = _length(is_image.any(axis=0))
    height = _length(is_image.any(axis=1))
    plain = Image.fromarray((image * 255).round().astype(np.uint8))
    shade = Image.fromarray(mask.astype(np.uint8) * 255)
    shade = shade.resize(plain.size, Image.Resampling.NEAREST)
    orange = Image.blend(plain, Image.new("RGB", plain.size, _MASK), _OPACITY)
    drawn = Image.composite(orange, plain, shade).crop((0, 0, width, height))
    scale = SIDE / max(width, height)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    drawn = drawn.resize(size, Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(drawn)
    for (x, y), label in zip(sample["points"] * scale, sample["labels"], strict=True):
        corners = (x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS)
        pen.ellipse(corners, fill=_OBJECT if label else _BACKGROUND, outline="white")
    for box in sample.get("boxes", np.empty((0, 2, 2))) * scale:
        pen.rectangle([tuple(corner) for corner in box.tolist()], outline=_OBJECT, width=2)
    return drawn


def _length(used: np.ndarray) -> int:
    """Return the number of rows or columns up to the last used one, at least 1."""
    return int(np.flatnonzero(used).max(initial=0)) + 1
