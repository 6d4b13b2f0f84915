"""Segment Anything as KerasHub and KerasCV have it: both take the same inputs, and give the same
outputs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sut.contract import Batch


def prepare(inputs: Batch) -> Batch:
    """The inputs under Keras' names. Without a box a point that is none follows the points: Meta's
    library adds it itself.
    """
    points, labels, boxes = (
        inputs["points"],
        inputs["labels"].astype(np.float32),
        inputs.get("boxes"),
    )
    count = len(points)
    if boxes is None:
        points = np.concatenate([points, np.zeros((count, 1, 2), np.float32)], axis=1)
        labels = np.concatenate([labels, np.full((count, 1), -1, np.float32)], axis=1)
        boxes = np.zeros((count, 0, 2, 2), np.float32)
    no_masks = np.zeros((count, 0, 1, 1, 1), np.float32)
    return {
        "images": inputs["image"],
        "points": points,
        "labels": labels,
        "boxes": boxes,
        "masks": no_masks,
    }


def to_host(outputs: Mapping[str, np.ndarray]) -> Batch:
    """As native torch has it: without the first mask, which Meta's library computes too and keeps
    for single answers.

    Args:
        outputs: `masks` [batch, 4, side / 4, side / 4] and `iou_pred` [batch, 4].
    """
    logits, scores = (
        np.asarray(outputs[name][:, 1:], np.float32) for name in ("masks", "iou_pred")
    )
    return {
        "mask": logits > 0,
        "logits": np.ascontiguousarray(logits[:, :, ::7, ::7]),
        "score": np.ascontiguousarray(scores),
    }
