"""The pictures of a run directory, of every kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.samples import images, masks


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """The pictures of one kind.

    Attributes:
        of: the kind in the plural, `masks` or `images`.
        legend: the meaning of the colours; empty if there are none.
        pictures: (caption, JPEG file) of each.
    """

    of: str
    legend: str
    pictures: list[tuple[str, bytes]]


def read(directory: Path) -> list[Gallery]:
    """Return the galleries of a run directory. Empty if it has no pictures."""
    found = []
    for kind in (masks, images):
        pictures = [(sample.caption, jpeg) for sample, jpeg in kind.read(directory)]
        if pictures:
            found.append(Gallery(of=kind.FOLDER, legend=kind.LEGEND, pictures=pictures))
    return found
