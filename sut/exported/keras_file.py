"""A user's own model in a `.keras` file, which Keras' own `export` converts."""

from __future__ import annotations

import numpy as np

from sut.contract import Batch
from sut.exported.predictor import Predictor


class KerasFile(Predictor):
    """The file's model. Its methods are those of `sut.contract.Inference`."""

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs, which have the model's own names."""
        return {name: inputs[name] for name in self.workload.config["model"]["inputs"]}

    def predict(self, batch: Batch) -> Batch:
        """Return the model's outputs. The graph has them in the order of their names."""
        outputs = super().predict(batch)
        names = sorted(self.workload.config["model"]["outputs"])
        return dict(zip(names, outputs.values(), strict=True))

    def to_host(self, outputs: Batch) -> Batch:
        """Return floats as float32, and whole numbers as int32."""
        return {name: _plain(array) for name, array in outputs.items()}


def _plain(array: np.ndarray) -> np.ndarray:
    kind = array.dtype.kind
    if kind == "b":
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array, np.int32 if kind in "iu" else np.float32)
