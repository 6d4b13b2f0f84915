"""Segment Anything of Meta's own library. The exported model contains its three parts. Its decoder
takes one image at a time, so each size of a batch has a graph of its own.
"""

from __future__ import annotations

import numpy as np

from sut.contract import Batch
from sut.exported.predictor import Predictor


class Segmenter(Predictor):
    """Meta's `Sam`. Its methods are those of `sut.contract.Inference`."""

    def prepare(self, inputs: Batch) -> Batch:
        """Return images with channels first, as Meta's encoder takes them."""
        return {
            "images": np.ascontiguousarray(inputs["image"].transpose(0, 3, 1, 2)),
            "points": inputs["points"],
            "labels": inputs["labels"],
        }

    def to_host(self, outputs: Batch) -> Batch:
        """Return the masks as bits, every seventh of their logits in either direction, and the
        scores.
        """
        logits, scores = outputs.values()
        return {
            "mask": logits > 0,
            "logits": np.ascontiguousarray(logits[:, :, ::7, ::7]),
            "score": scores,
        }
