"""The reference for a user's own model in a `.keras` file: Keras on another backend than that of
the SUT, in float32. Its methods are those of `sut.contract.Inference`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from sut import keras_archive
from sut.contract import Batch, Evidence, Workload


class Reference:
    """The file's model, called on one batch at a time."""

    in_flight = 1

    def __init__(self, workload: Workload):
        _products_in_float32(workload.device)
        self.model = keras_archive.load(workload)
        self.model.compile(
            optimizer=None, loss=None, metrics=None, jit_compile=workload.execution == "xla"
        )

    def prepare(self, inputs: Batch) -> Batch:
        """Return the inputs unchanged."""
        return inputs

    def predict(self, batch: Batch) -> Mapping[str, Any]:
        """Return the model's outputs."""
        outputs: Mapping[str, Any] = self.model.predict_on_batch(dict(batch))
        return outputs

    def to_host(self, outputs: Mapping[str, Any]) -> Batch:
        """Return the outputs: floats as float32, whole numbers as int32."""
        arrays: dict[str, np.ndarray] = {}
        for name, output in outputs.items():
            array = np.asarray(output)
            dtype = {"b": np.bool_, "i": np.int32, "u": np.int32}.get(array.dtype.kind, np.float32)
            arrays[name] = np.ascontiguousarray(array, dtype)
        return arrays

    def synchronise(self) -> None:
        """Do nothing: no time is measured."""

    def evidence(self, call: Callable[[], Any]) -> Evidence:
        """Return the backend. A reference is not measured."""
        call()
        detail = {"keras": keras.__version__, "backend": keras.backend.backend()}
        return Evidence(graphs=0, graph_breaks=None, precision="float32", detail=detail)


def _products_in_float32(device: str) -> None:
    """Choose the device, and switch tf32 off on a GPU."""
    framework = importlib.import_module(keras.backend.backend())
    if keras.backend.backend() == "jax":
        framework.config.update("jax_default_matmul_precision", "highest")
        framework.config.update("jax_platforms", "cpu" if device == "cpu" else "cuda,cpu")
    else:
        framework.config.experimental.enable_tensor_float_32_execution(False)
        if device == "cpu":
            framework.config.set_visible_devices([], "GPU")


def load(workload: Workload) -> Reference:
    """Return the reference of the file."""
    return Reference(workload)
