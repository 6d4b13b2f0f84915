"""A user's own model in a `.keras` file."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sut import keras_archive
from sut.contract import Batch, Unsupported, Workload
from sut.keras.predictor import KerasPredictor
from sut.keras3 import runtime


def prepare(inputs: Batch) -> Batch:
    """Return the inputs, which have the model's own names."""
    return inputs


def to_host(outputs: Mapping[str, np.ndarray]) -> Batch:
    """Return the outputs: floats as float32, whole numbers as int32, the same on every backend."""
    return {name: _plain(np.asarray(array)) for name, array in outputs.items()}


def _plain(array: np.ndarray) -> np.ndarray:
    kind = array.dtype.kind
    if kind == "b":
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array, np.int32 if kind in "iu" else np.float32)


def load(workload: Workload) -> KerasPredictor:
    """Return the file's model, in float32."""
    runtime.configure(workload)
    model = keras_archive.load(workload)
    if not model.weights:
        raise Unsupported("the model has no weights, so there is nothing whose precision is proven")
    runtime.backend.product("float32")  # compiled here, so that evidence compiles nothing
    return KerasPredictor(model, workload, runtime, prepare=prepare, to_host=to_host)
