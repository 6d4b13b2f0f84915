"""The first images that a model generated, in `images/` of a run directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from compliance.scoring.arrays import psnr
from harness.samples import pictures

FOLDER = "images"
LEGEND = ""
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
    """Keep the first images of the accuracy test. Without a reference no image is kept.

    Args:
        directory: folder of a run whose accuracy test ended well.
    """
    pictures.write(directory / FOLDER, _shown(directory))


def read(directory: Path) -> list[tuple[Shown, bytes]]:
    """Return the samples of a run directory, each with its JPEG file."""
    return pictures.read(directory / FOLDER, Shown)


def _shown(directory: Path) -> Iterator[tuple[Shown, Image.Image]]:
    for i, answer, reference in pictures.answers(directory, _ANSWER):
        image = answer["image"]
        distance = psnr(image, reference["image"])
        picture = Image.fromarray(image)
        picture.thumbnail((pictures.SIDE, pictures.SIDE))
        yield Shown(file=f"{i + 1}.jpg", psnr=round(distance, 2)), picture
