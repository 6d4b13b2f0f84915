"""Segment Anything of KerasHub and KerasCV. Both have the same inputs and outputs."""

from __future__ import annotations

import numpy as np

from sut.contract import Batch


def prepare(inputs: Batch) -> Batch:
    """Return the inputs under Keras' names. Without a box, a padding point with label -1 follows
    the points, as in Meta's library, which adds it itself.
    """
    points = inputs["points"]
    labels = inputs["labels"].astype(np.float32)
    boxes = inputs.get("boxes")
    count = len(points)
    if boxes is None:
        padding_point = np.zeros((count, 1, 2), np.float32)
        padding_label = np.full((count, 1), -1, np.float32)
        points = np.concatenate([points, padding_point], axis=1)
        labels = np.concatenate([labels, padding_label], axis=1)
        boxes = np.zeros((count, 0, 2, 2), np.float32)
    no_masks = np.zeros((count, 0, 1, 1, 1), np.float32)
    return {
        "images": inputs["image"],
        "points": points,
        "labels": labels,
        "boxes": boxes,
        "masks": no_masks,
    }


def to_host(outputs: Batch) -> Batch:
    """Return the same answers as native torch. The first mask is left out: Meta's library computes
    it too, and uses it only for single answers.

    Args:
        outputs: `masks` [batch, 4, side / 4, side / 4] and `iou_pred` [batch, 4].
    """
    logits = np.asarray(outputs["masks"][:, 1:], np.float32)
    scores = np.asarray(outputs["iou_pred"][:, 1:], np.float32)
    return {
        "mask": logits > 0,
        "logits": np.ascontiguousarray(logits[:, :, ::7, ::7]),
        "score": np.ascontiguousarray(scores),
    }
