"""Classifiers of pictures of Transformers that answer the likeliest class. The exported model also
subtracts the mean, divides by the deviation, and chooses the class.
"""

from __future__ import annotations

from sut.contract import Batch
from sut.exported.predictor import Predictor


class ImageClassifier(Predictor):
    """A classifier that answers classes. Its methods are those of `sut.contract.Inference`."""

    def prepare(self, inputs: Batch) -> Batch:
        """Return the pictures. The mean and the deviation are part of the model."""
        return {"pixel_values": inputs["pixel_values"]}
