"""A user's folder of JPEG and PNG files with prompts.json → the images, points and boxes for a
model that segments.
"""

from __future__ import annotations

import codecs
import math
import struct
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from PIL import Image, ImageOps

from formats import bounds
from harness.errors import UsageError

PROMPTS = "prompts.json"
MEAN = (0.485, 0.456, 0.406)
"""The mean colour of ImageNet, which SAM subtracts. The rest of an image is filled with it, because
Meta's library fills it with 0 after the subtraction.
"""
_SUFFIXES = (".jpg", ".jpeg", ".png")
_MOST_PIXELS = 100_000_000
_COPIES = 4  # of all images in memory at once, at most
_SHAPES = 6  # of a random picture


@dataclass(frozen=True)
class Target:
    """The points and the box that show a model what to mask. All are in pixels, of the upright
    picture or of the resized image.

    Attributes:
        labels: for each point 1 (on the object) or 0 (on its background).
        box: its upper left and its lower right corner; None: no box.
    """

    points: tuple[tuple[float, float], ...]
    labels: tuple[int, ...]
    box: tuple[tuple[float, float], tuple[float, float]] | None = None


def files(folder: Path) -> list[Path]:
    """The pictures of a folder, sorted by name. Raises UsageError if there is none."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "there is no such folder"
        raise UsageError(f"--dataset {folder}: {what}; give a folder of JPEG and PNG files")
    pictures = [path for path in _visible(folder) if path.suffix.lower() in _SUFFIXES]
    if not pictures:
        raise UsageError(
            f"--dataset {folder}: no picture is in it; it takes JPEG and PNG files"
            f" ({', '.join(_SUFFIXES)})"
        )
    return pictures


def _visible(folder: Path) -> list[Path]:
    """The files and folders in a folder, sorted by name, without hidden ones."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def read(folder: Path, side: int) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Images, points, labels and boxes as described in `harness.inputs.architectures.sam`, and
    notes for the reader.

    Raises UsageError with the name of a file that is no picture, too large or without a prompt.
    Nothing is skipped.
    """
    paths = files(folder)
    check_memory(folder, len(paths), 4 * 3 * side * side)
    named = _prompts(folder, paths)
    rows = []
    prompts = []
    for path in paths:
        image, width, height = _image(path, side)
        rows.append(image)
        prompt = named[path.name] if named else _default(width, height)
        prompts.append(_scaled(prompt, path, width, height, side))
    _check_alike(folder, paths, prompts)
    points = np.array([prompt.points for prompt in prompts], np.float32)
    labels = np.array([prompt.labels for prompt in prompts], np.int32)
    arrays = {
        "image": np.stack(rows),
        "points": points.reshape(len(rows), -1, 2),
        "labels": labels.reshape(len(rows), -1),
    }
    if prompts[0].box:
        arrays["boxes"] = np.array([[prompt.box] for prompt in prompts], np.float32)
    return arrays, tuple(_notes(folder, paths, prompts[0], bool(named)))


def _notes(folder: Path, paths: list[Path], first: Target, named: bool) -> Iterator[str]:
    pictures = "1 picture" if len(paths) == 1 else f"{len(paths)} pictures"
    box = "a box" if first.box else "no box"
    source = (
        f"of {PROMPTS}"
        if named
        else f"(the middle is the object, the upper left corner is not): name others in {PROMPTS}"
    )
    yield f"{folder.name}: {pictures}, each with {len(first.labels)} points and {box} {source}"
    names_read = {path.name for path in paths}
    if named:
        names_read.add(PROMPTS)
    others = [path.name for path in _visible(folder) if path.name not in names_read]
    if others:
        more = f" and {len(others) - 3} more" if others[3:] else ""
        yield f"{folder.name}: not read: {', '.join(others[:3])}{more}"


def check_memory(folder: Path, count: int, picture_bytes: int) -> None:
    """Raises TooLarge if so many prepared pictures do not fit into memory.

    Args:
        picture_bytes: the bytes of one prepared picture.
    """
    bounds.check(f"--dataset {folder}: {count} pictures", count * picture_bytes, _COPIES)


def _image(path: Path, side: int) -> tuple[np.ndarray, int, int]:
    """(float32 [side, side, 3] from 0 to 1, width and height of the upright picture).

    As in Meta's library, the longer side is resized to `side` pixels, and the rest at the right or
    bottom is filled with the mean colour.
    """
    upright = opened(path)
    width, height = upright.size
    columns, rows = _fitted(width, height, side)
    resized = upright.resize((columns, rows), Image.Resampling.BILINEAR)
    image = np.full((side, side, 3), MEAN, np.float32)
    image[:rows, :columns] = np.asarray(resized, np.float32) / np.float32(255)
    return image, width, height


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


def _fitted(width: int, height: int, side: int) -> tuple[int, int]:
    """The width and height of a picture whose longer side is resized to `side`."""
    scale = side / max(width, height)
    return max(1, int(width * scale + 0.5)), max(1, int(height * scale + 0.5))


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


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """The prompt of a picture in the file. All labels are 1 if there are none."""

    points: list[tuple[float, float]] = []
    labels: list[Literal[0, 1]] | None = None
    box: tuple[float, float, float, float] | None = None


def _prompts(folder: Path, paths: list[Path]) -> Mapping[str, Target]:
    """Name of a picture → its prompt. Empty if there is no prompts.json."""
    file = folder / PROMPTS
    if not file.exists():
        return {}
    try:
        content = bounds.content(file, bounds.JSON).removeprefix(codecs.BOM_UTF8)
        entries = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (OSError, ValueError, msgspec.MsgspecError) as e:
        raise UsageError(
            f"{file}: not JSON ({e}): it is an object of file names and their prompts"
        ) from None
    names = {path.name for path in paths}
    missing = sorted(names - set(entries))
    if missing:
        raise UsageError(
            f"{file}: has no prompt for {missing[0]} (of {len(missing)}): each picture needs one,"
            " or none has one"
        )
    strays = sorted(set(entries) - names)
    if strays:
        raise UsageError(
            f"{file}: {strays[0]} is no picture of the folder: correct the name, or remove it"
        )
    return {name: _prompt(f"{file}: {name}", entry) for name, entry in entries.items()}


def _prompt(where: str, content: msgspec.Raw) -> Target:
    try:
        entry = msgspec.json.decode(content, type=_Entry)
    except msgspec.MsgspecError as e:
        raise UsageError(
            f'{where}: is not such as {{"points": [[x, y]], "labels": [1], "box": [left, top,'
            f" right, bottom]}}, with labels 1 (on the object) or 0 (on its background): {e}"
        ) from None
    points = tuple(entry.points)
    labels = (1,) * len(points) if entry.labels is None else tuple(entry.labels)
    if len(labels) != len(points):
        raise UsageError(f"{where}: {len(points)} points and {len(labels)} labels: each has one")
    if not points and entry.box is None:
        raise UsageError(f"{where}: neither a point nor a box: it needs one")
    if entry.box is None:
        return Target(points, labels)
    left, top, right, bottom = entry.box
    if left >= right or top >= bottom:
        raise UsageError(f"{where}: `box` is [left, top, right, bottom] in pixels")
    return Target(points, labels, ((left, top), (right, bottom)))


def _default(width: int, height: int) -> Target:
    """The middle of a picture is on the object, and its upper left corner is not."""
    return Target(((width / 2, height / 2), (0.0, 0.0)), (1, 0))


def _scaled(prompt: Target, path: Path, width: int, height: int, side: int) -> Target:
    """The prompt in pixels of the resized image. Raises UsageError if a point is outside of the
    picture.
    """
    for x, y in (*prompt.points, *(prompt.box or ())):
        if not (0 <= x <= width and 0 <= y <= height):
            raise UsageError(
                f"{path.parent / PROMPTS}: {path.name}: ({x:g}, {y:g}) is outside of its {width} x"
                f" {height} pixels"
            )
    columns, rows = _fitted(width, height, side)
    across = columns / width
    down = rows / height
    points = tuple((x * across, y * down) for x, y in prompt.points)
    corners = [(x * across, y * down) for x, y in prompt.box or ()]
    return Target(points, prompt.labels, (corners[0], corners[1]) if corners else None)


def _check_alike(folder: Path, paths: list[Path], prompts: list[Target]) -> None:
    """Raises UsageError unless all pictures have equally many points, and all a box or none. A
    batch of several pictures needs this.
    """
    shapes = [(len(prompt.labels), prompt.box is not None) for prompt in prompts]
    for path, shape in zip(paths, shapes, strict=True):
        if shape != shapes[0]:
            first = f"{paths[0].name} {_has(*shapes[0])}"
            other = f"{path.name} {_has(*shape)}"
            raise UsageError(
                f"{folder / PROMPTS}: {first} and {other}: give all equally many points, and all a"
                " box or none"
            )


def _has(points: int, box: bool) -> str:
    return f"has {points} points and {'a' if box else 'no'} box"
