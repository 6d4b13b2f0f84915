"""A user's own model in a `.keras` file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np

from sut import keras_archive
from sut.contract import Batch, OnStep, Unsupported, Workload
from sut.evidence import causes
from sut.keras.model import KerasPredictor
from sut.keras.training import KerasTraining, Pair
from sut.keras3 import runtime, training


def prepare(inputs: Batch) -> Batch:
    """Return the inputs, which have the model's own names."""
    return inputs


def to_host(outputs: Batch) -> Batch:
    """Return the outputs: floats as float32, whole numbers as int32, the same on every backend."""
    return {name: _plain(np.asarray(array)) for name, array in outputs.items()}


def _plain(array: np.ndarray) -> np.ndarray:
    kind = array.dtype.kind
    if kind == "b":
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array, np.int32 if kind in "iu" else np.float32)


@contextmanager
def _in_words_of_the_library() -> Iterator[None]:
    """Raises Unsupported with the cause if the library refuses an operation of the model."""
    try:
        yield
    except Exception as e:
        if not causes.is_refusal(e):
            raise
        library = f"Keras {keras.__version__} on {keras.backend.backend()}"
        raise Unsupported(f"{library} does not run the file: {causes.line(e)}") from e


class FilePredictor(KerasPredictor):
    """The file's model. Its first answer shows whether the library runs it."""

    answered = False

    def predict(self, batch: Batch) -> Any:
        """Return the model's outputs. Raises Unsupported if the library refuses the model."""
        if self.answered:
            return super().predict(batch)
        with _in_words_of_the_library():
            outputs = super().predict(batch)
        self.answered = True
        return outputs


def load(workload: Workload) -> KerasPredictor:
    """Return the file's model, in float32."""
    runtime.configure(workload)
    model = keras_archive.load(workload)
    if not model.weights:
        raise Unsupported("the model has no weights, so there is nothing whose precision is proven")
    runtime.backend.product("float32")  # compiled here, so that evidence compiles nothing
    return FilePredictor(model, workload, runtime, prepare=prepare, to_host=to_host)


class FileTraining(KerasTraining):
    """The file's own model, with its own optimizer. Not every learning rate can be set to zero, so
    each step after `freeze` begins with the values that all variables had then.
    """

    kept: list[np.ndarray] | None = None

    def fit(self, batches: Iterable[Batch], steps: int, on_step: OnStep) -> None:
        """Run one epoch of `fit`; if the model is frozen, one for each batch."""
        if self.kept is None:
            with _in_words_of_the_library():
                super().fit(batches, steps, on_step)
            return
        for batch in batches:
            super().fit(iter([batch]), 1, on_step)
            for variable, value in zip(self._variables(), self.kept, strict=True):
                variable.assign(value)

    def freeze(self) -> None:
        """Keep the values of all variables."""
        values = map(keras.ops.convert_to_numpy, self._variables())
        self.kept = [np.array(each) for each in values]

    def _variables(self) -> list[Any]:
        return [*self.model.variables, *self.model.optimizer.variables]


def load_training(workload: Workload) -> KerasTraining:
    """Return the file's own model, with its own optimizer and losses, to be trained in float32."""
    runtime.configure(workload)
    model = keras_archive.load_compiled(workload)
    runtime.backend.product("float32")  # compiled here, so that evidence compiles nothing

    def pair(batch: Batch) -> Pair:
        inputs = keras_archive.inputs(model, workload, batch)
        return inputs, keras_archive.labels(model, workload, batch)

    return FileTraining(
        model=model,
        workload=workload,
        named=prepare,
        epoch=training.epoch,
        runtime=runtime,
        versions={},
        pair=pair,
    )
