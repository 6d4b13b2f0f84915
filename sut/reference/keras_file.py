"""The reference for a user's own model in a `.keras` file: Keras in float64, on TensorFlow without
XLA or on PyTorch. Its methods are those of `sut.contract.Inference`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np

from sut.contract import Batch, Call, Evidence, OnStep, Workload
from sut.reference import keras_model
from sut.reference.untimed import Untimed

_ROUNDINGS = 1e-6
_NOISY = 1e-2
"""The relative change of a weight: as much as 16 roundings of float32."""


class _Described(Untimed):
    """A model of which no time is measured. `in_float32`: its layers that compute in float32."""

    in_float32: set[str]

    def evidence(self, call: Call) -> Evidence:
        """Return the backend, and the layers that compute in float32."""
        call()
        detail = {
            "keras": keras.__version__,
            "backend": keras.backend.backend(),
            "in_float32": sorted(self.in_float32),
        }
        precision = keras.config.floatx()
        return Evidence(graphs=0, graph_breaks=None, precision=precision, detail=detail)


class Reference(_Described):
    """The file's model, called on one batch at a time.

    Raises ValueError if Keras finds other outputs in the file than the harness.
    """

    def __init__(self, workload: Workload):
        keras_model.configure(workload)
        loaded, self.in_float32 = keras_model.load(workload)
        self.names = [f"output_{name}" for name in keras_model.output_names(loaded)]
        expected = workload.config["model"]["outputs"]
        if self.names != list(expected):
            raise ValueError(
                f"Keras finds the outputs {', '.join(self.names)} in the file, and the harness"
                f" finds {', '.join(expected)}"
            )
        self.model = keras_model.flat(loaded.inputs, loaded.outputs)
        self.in_float32 |= keras_model.below_float64(self.model)

    def predict(self, batch: Batch) -> Mapping[str, Any]:
        """Return the model's outputs."""
        outputs = self.model.predict_on_batch(keras_model.given(self.model, batch))
        return dict(zip(self.names, keras.tree.flatten(outputs), strict=True))

    def to_host(self, outputs: Mapping[str, Any]) -> Batch:
        """Return the outputs: floats as float32, whole numbers as int32. Raises ValueError if Keras
        computed floats in another precision than the layers have.
        """
        arrays: dict[str, np.ndarray] = {}
        for tensor, (name, output) in zip(self.model.outputs, outputs.items(), strict=True):
            array = np.asarray(output)
            if array.dtype.kind == "f" and array.dtype != tensor.dtype:
                raise ValueError(f"Keras computed {name} in {array.dtype}, not in {tensor.dtype}")
            dtype = {"b": np.bool_, "i": np.int32, "u": np.int32}.get(array.dtype.kind, np.float32)
            arrays[name] = np.ascontiguousarray(array, dtype)
        return arrays


class ReferenceTraining(_Described):
    """The file's own model, trained by `train_on_batch`. Its methods are those of
    `sut.contract.Training`.

    It also trains a copy whose weights are changed by some roundings. `rounded` has the loss of
    each step of the copy.
    """

    def __init__(self, workload: Workload):
        keras_model.configure(workload)
        self.model, self.in_float32 = _to_train(workload)
        self.trainable = sum(math.prod(each.shape) for each in self.model.trainable_weights)
        self.kept: list[np.ndarray] | None = None
        self.copy, _ = _to_train(workload)
        self.rounded: list[float] = []
        rng = np.random.default_rng(0)
        for weight in self.copy.trainable_weights:
            factors = 1 + _ROUNDINGS * rng.standard_normal(weight.shape)
            weight.assign(weight * factors)
        self.initial = list(map(_values, (self.model, self.copy)))

    def parameters(self) -> Iterator[np.ndarray]:
        """Yield the trained variables."""
        yield from _values(self.model)

    def noise(self) -> list[bool]:
        """Return for each parameter whether its update in the copy differs much."""
        one, other = (
            [after - before for before, after in zip(initial, _values(model), strict=True)]
            for initial, model in zip(self.initial, (self.model, self.copy), strict=True)
        )
        lengths = [
            (np.linalg.norm(a - b), np.linalg.norm(a)) for a, b in zip(one, other, strict=True)
        ]
        return [bool(difference > _NOISY * length) for difference, length in lengths]

    def fit(self, batches: Iterable[Batch], steps: int, on_step: OnStep) -> None:
        """Make one step on each batch. If the model is frozen, each step changes nothing."""
        for batch in batches:
            loss = _step(self.model, batch)
            if self.kept is None:
                self.rounded.append(_step(self.copy, batch))
            else:
                for variable, value in zip(_variables(self.model), self.kept, strict=True):
                    variable.assign(value)
            on_step(partial(float, loss))

    def freeze(self) -> None:
        """Keep the values of all variables."""
        values = map(keras.ops.convert_to_numpy, _variables(self.model))
        self.kept = [np.array(each) for each in values]


def _to_train(workload: Workload) -> tuple[Any, set[str]]:
    """The compiled model without rates of dropout, and the layers that compute in float32."""
    keras.utils.set_random_seed(0)  # for random layers without a rate
    model, in_float32 = keras_model.load(workload, compiled=True)
    keras_model.without_random_rates(model)
    if keras.backend.backend() == "tensorflow":
        # TensorFlow has a gradient for each row of an embedding that was looked up, and Keras 3.15
        # squares these one by one. Other backends add them up first.
        dense = importlib.import_module("tensorflow").convert_to_tensor
        own = model.optimizer.apply

        def apply(gradients: Sequence[Any], trainable_variables: Any = None) -> None:
            added = [each if each is None else dense(each) for each in gradients]
            own(added, trainable_variables)

        model.optimizer.apply = apply
    return model, in_float32


def _values(model: Any) -> list[np.ndarray]:
    return [np.array(each) for each in model.trainable_weights]


def _variables(model: Any) -> list[Any]:
    return [*model.variables, *model.optimizer.variables]


def _step(model: Any, batch: Batch) -> float:
    """Train one step. Return its loss."""
    model.reset_metrics()
    names = map(keras_model.name_of, model.inputs)
    inputs: Any = dict(zip(names, keras_model.given(model, batch), strict=True))
    if isinstance(model, keras.Sequential):
        (inputs,) = inputs.values()
    labels = _labels(model, batch)
    return float(model.train_on_batch(inputs, labels, return_dict=True)["loss"])


def _labels(model: Any, batch: Batch) -> Any:
    """The labels of a batch, as the model's losses take them. An output without a loss has none."""
    names = keras_model.output_names(model)
    labels = ["label"] if len(names) == 1 else [f"label_{name}" for name in names]
    found = [batch.get(label) for label in labels]
    given = [each for each in found if each is not None]
    structure = keras_model.outputs(model)
    if isinstance(structure, dict):
        pairs = zip(sorted(structure), found, strict=True)
        return {key: each for key, each in pairs if each is not None}
    if len(given) < len(found):
        return tuple(given)
    return keras.tree.pack_sequence_as(keras.tree.lists_to_tuples(structure), given)


def load(workload: Workload) -> Reference:
    """Return the reference of the file."""
    return Reference(workload)


def load_training(workload: Workload) -> ReferenceTraining:
    """Return the reference of a training of the file."""
    return ReferenceTraining(workload)
