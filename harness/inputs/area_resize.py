"""Resizes a picture as OpenCV's `cv2.resize` does with INTER_AREA, to the last bit.

Each pixel of a smaller picture is the mean of the area that it covers. A larger picture is
interpolated between two pixels, in whole numbers. OpenCV sums in float32, in the order of the
source pixels, and so does this module (modules/imgproc/src/resize.cpp of opencv/opencv).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_LEAST_PART = 1e-3
"""The part of a pixel that is too small to count."""
_ONE_BITS = 11
"""Bits of the weight 1 when a picture is made larger."""

Part = tuple[np.ndarray, np.ndarray]
"""For each pixel of the result, the index of a source pixel and its weight: int64 and float32."""


def resized(
    picture: np.ndarray, height: int, width: int, rows: slice, columns: slice
) -> np.ndarray:
    """A part of the resized picture, uint8 [rows, columns, channels].

    Args:
        picture: uint8 [height, width, channels].
        height, width: of the whole resized picture.
        rows, columns: the part of it that is computed.
    """
    shape = picture.shape
    tall = _scale(shape[0], height)
    wide = _scale(shape[1], width)
    if shape[:2] == (height, width):
        return picture[rows, columns]
    if min(tall, wide) < 1:
        return _larger(picture, height, width, rows, columns)
    if _is_whole(tall) and _is_whole(wide):
        return _by_whole_pixels(picture, round(tall), round(wide), rows, columns)
    values = picture.astype(np.float32)
    values = _sums(values, _parts(shape[1], width, columns), axis=1)
    values = _sums(values, _parts(shape[0], height, rows), axis=0)
    return np.rint(values).clip(0, 255).astype(np.uint8)


def _scale(source: int, target: int) -> float:
    """The source pixels of a pixel of the result, rounded twice as in OpenCV."""
    return 1.0 / (target / source)


def _is_whole(scale: float) -> bool:
    return abs(scale - round(scale)) < float(np.finfo(np.float64).eps)


def _parts(source: int, target: int, part: slice) -> list[Part]:
    """The source pixels that each pixel of `part` covers, from left to right. A weight is 0 if it
    covers fewer than others.
    """
    scale = _scale(source, target)
    begin = np.arange(target)[part] * scale
    end = begin + scale
    covered = np.minimum(scale, source - begin)
    last = np.minimum(np.floor(end).astype(np.int64), source - 1)
    first = np.minimum(np.ceil(begin).astype(np.int64), last)
    before = first - begin
    after = end - last
    parts = [(first - 1, np.where(before > _LEAST_PART, before / covered, 0.0))]
    for n in range(int((last - first).max())):
        parts.append((first + n, np.where(first + n < last, 1.0 / covered, 0.0)))
    share = np.minimum(np.minimum(after, 1.0), covered) / covered
    parts.append((last, np.where(after > _LEAST_PART, share, 0.0)))
    return [(index.clip(0, source - 1), weight.astype(np.float32)) for index, weight in parts]


def _sums(values: np.ndarray, parts: Sequence[Part], axis: int) -> np.ndarray:
    """The weighted sums along an axis, float32. Their order decides the last bit."""
    shape = [1, 1, 1]
    shape[axis] = -1
    total = np.zeros((), np.float32)
    for index, weight in parts:
        total = total + values.take(index, axis) * weight.reshape(shape)
    return total


def _by_whole_pixels(
    picture: np.ndarray, tall: int, wide: int, rows: slice, columns: slice
) -> np.ndarray:
    """A pixel of the result is the mean of `tall` × `wide` pixels. A mean of four is rounded up at
    a half, others to the even number.
    """
    height = picture.shape[0] // tall
    width = picture.shape[1] // wide
    blocks = picture[: height * tall, : width * wide].reshape(height, tall, width, wide, -1)
    sums = blocks[rows, :, columns].sum((1, 3), dtype=np.int64)
    if tall == wide == 2:
        return ((sums + 2) >> 2).astype(np.uint8)
    means = sums.astype(np.float32) * (np.float32(1) / np.float32(tall * wide))
    return np.rint(means).astype(np.uint8)


def _larger(
    picture: np.ndarray, height: int, width: int, rows: slice, columns: slice
) -> np.ndarray:
    shape = picture.shape
    last = shape[1] - 1
    left, of_left, of_right = _neighbours(shape[1], width, columns)
    above, of_above, of_below = _neighbours(shape[0], height, rows)
    of_left[left >= last] = 1 << _ONE_BITS
    of_right[left >= last] = 0
    wide = picture.astype(np.int64)
    right = left + 1
    below = above + 1
    mixed = wide.take(left, 1, mode="clip") * of_left[:, None]
    mixed += wide.take(right, 1, mode="clip") * of_right[:, None]
    mixed >>= 4
    upper = (mixed.take(above, 0, mode="clip") * of_above[:, None, None]) >> 16
    lower = (mixed.take(below, 0, mode="clip") * of_below[:, None, None]) >> 16
    return ((upper + lower + 2) >> 2).astype(np.uint8)


def _neighbours(source: int, target: int, part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the index of a source pixel, its weight, the weight of the next pixel) for each pixel of
    `part`, int64.
    """
    place = np.arange(target)[part]
    ratio = target / source
    index = np.floor(place * _scale(source, target)).astype(np.int64)
    fraction = ((place + 1) - (index + 1) * ratio).astype(np.float32)
    fraction = np.where(fraction <= 0, np.float32(0), fraction - np.floor(fraction))
    weights = np.rint(np.stack([1 - fraction, fraction]) * np.float32(1 << _ONE_BITS))
    own, following = weights.astype(np.int64)
    return index, own, following
