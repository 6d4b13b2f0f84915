"""Compares arrays of several frameworks, and says who agrees. Reads no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

Arrays = Mapping[str, np.ndarray]
_LAYER = "layer|"
_LEAST = 1e-30


class Verdict(StrEnum):
    """The result of one case on one backend."""

    AGREES = "agrees"
    DIFFERS = "differs"
    REFUSED = "refused"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case on one backend.

    Attributes:
        part: `folders`, `operations` or `file`.
        case: such as `qwen2, tied head`.
        size: the largest difference, as a share of the deviation (folders) or of the largest value
            (operations) of the reference's answer; None: there is none.
        layer: the first layer that differs; empty: it is not known.
        words: why it was refused, or who judges.
    """

    part: str
    case: str
    backend: str
    verdict: Verdict
    size: float | None = None
    layer: str = ""
    words: str = ""


def folder(
    case: str, backend: str, wanted: Arrays, made: Arrays, mask: np.ndarray | None, limit: Limit
) -> Row:
    """The verdict on KerasHub's answers of a folder.

    Args:
        wanted, made: see `sut.conformance`.
        mask: [rows, tokens], 1 for a token and 0 for padding, whose answers do not count.
    """
    noise = 0.0
    if "output64" in wanted:
        noise = _of_deviation(wanted["output64"], wanted["output"], mask)
    allowed = limit.of(noise)
    sizes = {
        key: _of_deviation(wanted[key], made[key], mask)
        for key in ("output", "pooled")
        if key in wanted and key in made
    }
    key, size = max(sizes.items(), key=lambda item: item[1])
    row = Row(part="folders", case=case, backend=backend, verdict=Verdict.AGREES, size=size)
    if size <= allowed:
        return row
    first = _first_layer(wanted, made, mask, allowed)
    if not first and key == "pooled" and sizes["output"] <= allowed:
        first = "the pooler"
    return replace(row, verdict=Verdict.DIFFERS, layer=first)


@dataclass(frozen=True, kw_only=True)
class Limit:
    """How far an answer may be from the reference: a multiple of the case's own noise, which is the
    distance of the reference's float32 from its float64, between a least and a largest distance.
    """

    least: float
    most: float
    of_noise: float

    def of(self, noise: float) -> float:
        """The largest distance that agrees."""
        return min(self.most, max(self.least, self.of_noise * noise))


def _of_deviation(wanted: np.ndarray, made: np.ndarray, mask: np.ndarray | None) -> float:
    """The largest difference, in standard deviations of the wanted values. Infinite if the shapes
    differ, or if a value is no number.
    """
    if wanted.shape != made.shape:
        wanted, made = _alike(wanted, made)
    if wanted.shape != made.shape:
        return float("inf")
    if mask is not None and wanted.shape[: mask.ndim] == mask.shape:
        wanted, made = wanted[mask == 1], made[mask == 1]
    apart = np.abs(wanted.astype(np.float64) - made)
    size = float(apart.max(initial=0.0) / max(float(wanted.std()), _LEAST))
    return size if np.isfinite(size) else float("inf")


def _alike(wanted: np.ndarray, made: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The arrays in one layout, if they are a picture with channels first and one with channels
    last, or the places of a picture in a row.
    """
    if wanted.ndim == made.ndim == 4:
        wanted = np.moveaxis(wanted, 1, -1)
    if wanted.size == made.size and wanted.shape[-1] == made.shape[-1]:
        return wanted, made.reshape(wanted.shape)
    return wanted, made


def _first_layer(wanted: Arrays, made: Arrays, mask: np.ndarray | None, allowed: float) -> str:
    """The first layer of a list of layers that differs. Layers of two libraries are compared if as
    many of one class were called as the other has in a list, with outputs of the same shape.
    """
    lists: dict[str, list[np.ndarray]] = {}
    for key in wanted:
        if key.startswith(_LAYER):
            lists.setdefault(key.rpartition("|")[0], []).append(wanted[key])
    classes: dict[str, list[tuple[str, np.ndarray]]] = {}
    for key in made:
        if key.startswith(_LAYER):
            _, _, name, kind = key.split("|")
            classes.setdefault(kind, []).append((name, made[key]))
    nearest: tuple[float, str] = (float("inf"), "")
    for theirs in lists.values():
        for kind, ours in classes.items():
            pairs = list(zip(theirs, ours, strict=False))
            if len(theirs) != len(ours) or any(a.shape != b.shape for a, (_, b) in pairs):
                continue
            sizes = [_of_deviation(a, b, mask) for a, (_, b) in pairs]
            # A class of other layers, such as their attentions, is farther away.
            if sizes[0] < nearest[0]:
                first = next((n for n, size in enumerate(sizes) if size > allowed), None)
                words = "after the last layer"
                if first is not None:
                    words = f"layer {first} of {len(sizes)} ({kind}, {sizes[first]:.1g})"
                nearest = (sizes[0], words)
    return nearest[1]


def outputs(wanted: Arrays, made: Arrays) -> float:
    """The largest difference of two backends' outputs, as a share of the largest wanted value.
    Infinite if shapes, kinds of numbers, or places that are no numbers differ.
    """
    if wanted.keys() != made.keys():
        return float("inf")
    return max((_of_largest(wanted[key], made[key]) for key in wanted), default=0.0)


def _of_largest(wanted: np.ndarray, made: np.ndarray) -> float:
    kinds = {"i" if each.dtype.kind in "iu" else each.dtype.kind for each in (wanted, made)}
    if wanted.shape != made.shape or len(kinds) > 1:
        return float("inf")
    if wanted.dtype.kind not in "fc":
        return float("inf") if (wanted != made).any() else 0.0
    if (np.isfinite(wanted) != np.isfinite(made)).any():
        return float("inf")
    finite = np.isfinite(wanted)
    if not np.array_equal(wanted[~finite], made[~finite].astype(wanted.dtype), equal_nan=True):
        return float("inf")
    wanted, made = wanted[finite], made[finite]
    if not wanted.size:
        return 0.0
    return float(np.abs(wanted - made).max()) / max(float(np.abs(wanted).max()), _LEAST)


def groups(answers: Mapping[str, Arrays], limit: float) -> list[list[str]]:
    """The backends in groups that agree among themselves, the largest first."""
    found: list[list[str]] = []
    for name, arrays in answers.items():
        for group in found:
            if outputs(answers[group[0]], arrays) <= limit:
                group.append(name)
                break
        else:
            found.append([name])
    return sorted(found, key=len, reverse=True)


def in_words(found: Sequence[Sequence[str]]) -> str:
    """`JAX, TensorFlow and PyTorch agree; OpenVINO agrees with none`."""
    words = []
    for *others, last in found:
        if others:
            words.append(f"{', '.join(others)} and {last} agree")
        else:
            words.append(f"{last} agrees with none")
    return "; ".join(words)
