"""A user's folder of JPEG and PNG files → pictures, and the images and points for a model that
segments.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from formats import bounds
from harness.errors import UsageError

MEAN = (0.485, 0.456, 0.406)
"""The mean colour of ImageNet, which SAM subtracts. The rest of an image is filled with it, because
Meta's library fills it with 0 after the subtraction.
"""
_SUFFIXES = (".jpg", ".jpeg", ".png")
_MOST_PIXELS = 100_000_000
_COPIES = 4  # of all images in memory at once, at most
_SHAPES = 6  # of a random picture


def files(folder: Path) -> list[Path]:
    """The pictures of a folder, sorted by name. Raises UsageError if there is none."""
    check_folder(folder, "a folder of JPEG and PNG files")
    pictures = [path for path in _visible(folder) if path.suffix.lower() in _SUFFIXES]
    if not pictures:
        raise UsageError(
            f"--dataset {folder}: no picture is in it; it takes JPEG and PNG files"
            f" ({', '.join(_SUFFIXES)})"
        )
    return pictures


def check_folder(folder: Path, wanted: str) -> None:
    """Raises UsageError if there is no such folder. `wanted`: what it should be, in words."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "there is no such folder"
        raise UsageError(f"--dataset {folder}: {what}; give {wanted}")


def _visible(folder: Path) -> list[Path]:
    """The files and folders in a folder, sorted by name, without hidden ones."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def read(folder: Path, side: int) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Images, points and labels as described in `harness.inputs.architectures.sam`, and notes for
    the reader. The middle of each picture is on the object, and its upper left corner is not.

    Raises UsageError with the name of a file that is no picture or too large. No picture is
    skipped.
    """
    paths = files(folder)
    check_memory(folder, len(paths), 4 * 3 * side * side)
    rows = []
    points = []
    for path in paths:
        image, middle = _image(path, side)
        rows.append(image)
        points.append((middle, (0.0, 0.0)))
    arrays = {
        "image": np.stack(rows),
        "points": np.array(points, np.float32),
        "labels": np.array([(1, 0)] * len(rows), np.int32),
    }
    pictures = "1 picture" if len(paths) == 1 else f"{len(paths)} pictures"
    notes = [
        f"{folder.name}: {pictures}, each with 2 points (the middle is the object, the upper left"
        " corner is not)"
    ]
    others = [path.name for path in _visible(folder) if path not in paths]
    if others:
        more = f" and {len(others) - 3} more" if others[3:] else ""
        notes.append(f"{folder.name}: not read: {', '.join(others[:3])}{more}")
    return arrays, tuple(notes)


def check_memory(folder: Path, count: int, picture_bytes: int) -> None:
    """Raises TooLarge if so many prepared pictures do not fit into memory.

    Args:
        picture_bytes: the bytes of one prepared picture.
    """
    bounds.check(f"--dataset {folder}: {count} pictures", count * picture_bytes, _COPIES)


def _image(path: Path, side: int) -> tuple[np.ndarray, tuple[float, float]]:
    """(float32 [side, side, 3] from 0 to 1, x and y of the picture's middle in its pixels).

    As in Meta's library, the longer side is resized to `side` pixels, and the rest at the right or
    bottom is filled with the mean colour.
    """
    picture = opened(path)
    width, height = picture.size
    scale = side / max(width, height)
    columns = max(1, int(width * scale + 0.5))
    rows = max(1, int(height * scale + 0.5))
    resized = picture.resize((columns, rows), Image.Resampling.BILINEAR)
    image = np.full((side, side, 3), MEAN, np.float32)
    image[:rows, :columns] = np.asarray(resized, np.float32) / np.float32(255)
    return image, (columns / 2, rows / 2)


def stretched(folder: Path, height: int, width: int, channels: int) -> np.ndarray:
    """The pictures of a folder, float32 [pictures, height, width, channels] from 0 to 255. Each is
    resized to this shape, whatever its own is. `channels`: 3, or 1 for greyscale.

    Raises UsageError with the name of a file that is no picture or too large.
    """
    rows = []
    for picture in upright(folder):
        if channels == 1:
            picture = picture.convert("L")
        resized = picture.resize((width, height), Image.Resampling.BILINEAR)
        rows.append(np.asarray(resized, np.float32).reshape(height, width, channels))
    return np.stack(rows)


def upright(folder: Path) -> Iterator[Image.Image]:
    """The pictures of a folder in 8-bit RGB, sorted by name, turned as their tags say. Raises
    UsageError with the name of a file that is no picture or too large.
    """
    return map(opened, files(folder))


def drawn(height: int, width: int, rng: np.random.Generator) -> np.ndarray:
    """A random picture, float32 [height, width, 3]: ellipses and rectangles on a gradient, with a
    little noise. Values are multiples of 1/255.
    """
    across, down, base = rng.uniform(-0.5, 0.5, (3, 3)).astype(np.float32)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    y = y / height
    x = x / width
    image = 0.5 + base / 2 + across * (x[..., None] - 0.5) + down * (y[..., None] - 0.5)
    for n in range(_SHAPES):
        center_x, center_y = rng.uniform(0.1, 0.9, 2)
        across_shape, down_shape = rng.uniform(0.05, 0.3, 2)
        dx = (x - center_x) / across_shape
        dy = (y - center_y) / down_shape
        distance = np.maximum(abs(dx), abs(dy)) if n % 2 else np.hypot(dx, dy)
        image[distance < 1] = rng.uniform(0, 1, 3)
    noise = rng.standard_normal(image.shape, np.float32)
    levels = (np.clip(image + 0.02 * noise, 0, 1) * 255).round().astype(np.float32)
    return levels / np.float32(255)


def opened(path: Path) -> Image.Image:
    """The picture of a file in 8-bit RGB, turned as its tags say. Raises UsageError with the name
    of a file that is no picture or too large.
    """
    with _named_faults(path), Image.open(path, formats=("JPEG", "PNG")) as picture:
        if math.prod(picture.size) > _MOST_PIXELS:
            raise UsageError(
                f"{path}: {picture.width} x {picture.height} pixels; at most"
                f" {_MOST_PIXELS / 1e6:.0f} million are allowed: shrink it"
            )
        picture.load()
        picture.getexif()
        # Pillow has read the tags. Of a turned picture it would write all of them again, and fail
        # at odd ones.
        for name in ("exif", "Raw profile type exif"):
            picture.info.pop(name, None)
        return _rgb(ImageOps.exif_transpose(picture))


@contextmanager
def _named_faults(path: Path) -> Iterator[None]:
    """Turn Pillow's errors into a UsageError with the file's name. The file is damaged, of another
    kind, or unpacks to too many pixels.
    """
    try:
        with warnings.catch_warnings():
            # Our limit on pixels is stricter.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            yield
    except Image.DecompressionBombError:
        raise UsageError(
            f"{path}: unpacks to far more pixels than {_MOST_PIXELS / 1e6:.0f} million: it is not"
            " opened"
        ) from None
    except (OSError, ValueError, SyntaxError, EOFError, struct.error) as e:
        raise UsageError(
            f"{path}: no whole JPEG or PNG file ({e}): save it again, or remove it"
        ) from None


def _rgb(picture: Image.Image) -> Image.Image:
    """Convert a picture to 8-bit RGB. Values of 16 bits are divided by 257, and transparent pixels
    are put on white.
    """
    if picture.mode.startswith("I"):
        values = np.asarray(picture).astype(np.float64).clip(0, 65535) / 257
        picture = Image.fromarray(values.round().astype(np.uint8))
    if picture.mode in ("LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
    if picture.mode == "RGBA":
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture)
    return picture.convert("RGB")
