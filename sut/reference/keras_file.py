"""The reference for a user's own model in a `.keras` file: Keras on another backend than that of
the SUT, in float32. Its methods are those of `sut.contract.Inference`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import keras
import numpy as np

from sut import keras_archive
from sut.contract import AsGiven, Batch, Call, Evidence, OnStep, Workload

_ROUNDINGS = 1e-6
"""The relative change of a weight: as much as 16 roundings of float32."""


class Reference(AsGiven):
    """The file's model, called on one batch at a time."""

    in_flight = 1

    def __init__(self, workload: Workload):
        _products_in_float32(workload.device)
        self.model = keras_archive.load(workload)
        self.model.compile(
            optimizer=None, loss=None, metrics=None, jit_compile=workload.execution == "xla"
        )

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

    def evidence(self, call: Call) -> Evidence:
        """Return the backend. A reference is not measured."""
        return _evidence(call)


class ReferenceTraining(AsGiven):
    """The file's own model, trained by `train_on_batch`. Its methods are those of
    `sut.contract.Training`.

    It also trains a copy whose weights are changed by some roundings. `rounded` has the loss of
    each step of the copy.
    """

    def __init__(self, workload: Workload):
        _products_in_float32(workload.device)
        self.workload = workload
        self.model = keras_archive.load_compiled(workload)
        self.trainable = sum(math.prod(each.shape) for each in self.model.trainable_weights)
        self.kept: list[np.ndarray] | None = None
        self.copy = keras_archive.load_compiled(workload)
        self.rounded: list[float] = []
        rng = np.random.default_rng(0)
        for weight in self.copy.trainable_weights:
            factors = 1 + _ROUNDINGS * rng.standard_normal(weight.shape)
            weight.assign(weight * factors.astype(np.float32))

    def fit(self, batches: Iterable[Batch], steps: int, on_step: OnStep) -> None:
        """Make one step on each batch. If the model is frozen, each step changes nothing."""
        for batch in batches:
            inputs = keras_archive.inputs(self.model, self.workload, batch)
            labels = keras_archive.labels(self.model, self.workload, batch)
            loss = _step(self.model, inputs, labels)
            if self.kept is None:
                self.rounded.append(_step(self.copy, inputs, labels))
            else:
                keras_archive.restore(self.model, self.kept)
            on_step(partial(float, loss))

    def freeze(self) -> None:
        """Keep the values of all variables."""
        self.kept = keras_archive.state(self.model)

    def synchronise(self) -> None:
        """Do nothing: no time is measured."""

    def evidence(self, call: Call) -> Evidence:
        """Return the backend. A reference is not measured."""
        return _evidence(call)


def _step(model: Any, inputs: Any, labels: Any) -> float:
    """Train one step. Return its loss."""
    model.reset_metrics()
    return float(model.train_on_batch(inputs, labels, return_dict=True)["loss"])


def _evidence(call: Call) -> Evidence:
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


def load_training(workload: Workload) -> ReferenceTraining:
    """Return the reference of a training of the file."""
    return ReferenceTraining(workload)
