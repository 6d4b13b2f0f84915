"""Segment Anything as KerasHub and KerasCV have it: both take the same inputs, and give the same outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sut import weights_files
from sut.contract import Batch
from sut.weight_maps import sam as weight_map


def prepare(inputs: Batch) -> Batch:
    """The inputs under Keras' names. Without a box a point that is none follows the points: Meta's library adds it itself."""
    points, labels, boxes = inputs["points"], inputs["labels"].astype(np.float32), inputs.get("boxes")
    count = len(points)
    if boxes is None:
        points = np.concatenate([points, np.zeros((count, 1, 2), np.float32)], axis=1)
        labels = np.concatenate([labels, np.full((count, 1), -1, np.float32)], axis=1)
        boxes = np.zeros((count, 0, 2, 2), np.float32)
    no_masks = np.zeros((count, 0, 1, 1, 1), np.float32)
    return {"images": inputs["image"], "points": points, "labels": labels, "boxes": boxes, "masks": no_masks}


def to_host(outputs: Mapping[str, np.ndarray]) -> Batch:
    """As native torch has it: without the first mask, which Meta's library computes too and keeps for single answers.

    Args:
        outputs: `masks` [batch, 4, side / 4, side / 4] and `iou_pred` [batch, 4].
    """
    logits, scores = (np.asarray(outputs[name][:, 1:], np.float32) for name in ("masks", "iou_pred"))
    return {"mask": logits > 0, "logits": np.ascontiguousarray(logits[:, :, ::7, ::7]), "score": np.ascontiguousarray(scores)}


def variables(roots: Mapping[str, Any], table: Mapping[str, str]) -> Iterator[tuple[str, Any, bool]]:
    """(Meta's name, the variable, whether it is a layer's weight) of each tensor of a checkpoint.

    Args:
        roots: what the first name of a path stands for.
        table: one of `sut.weight_maps.sam`.
    """
    for name, path in table.items():
        first, *rest = path.split(".")
        found = roots[first]
        for step in rest:
            found = found[int(step)] if step.isdigit() else getattr(found, step)
        if name.endswith("*"):
            for part, variable in zip(("weight", "bias"), found.weights, strict=False):
                yield name[:-1] + part, variable, part == "weight"
        else:
            yield name, found, False


def assign(checkpoint: Path, places: Iterable[tuple[str, Any, bool]]) -> None:
    """Give each variable its tensor."""
    for name, variable, is_weight in places:
        value = weights_files.tensor(checkpoint, name).astype(np.float32)
        variable.assign(weight_map.to_keras(value) if is_weight else value)
