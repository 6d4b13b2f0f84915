"""Makes small `.keras` files, one for each layer, operation, loss and metric of Keras and each of
its settings.

The job has `operations.toml` of the harness. The settings follow from Keras' signatures: a required
argument gets the value that the data have for its name, and each optional one each of its values
there. The folder of a case gets `inputs.npz` and `model.keras`, or, for a loss or a metric,
`object.json`, as a file stores it, and `expected.npz`, its value before that.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from formats.writing import write_json
from sut.conformance import cases, composed
from sut.conformance.cases import Case, Wanted
from sut.reference.keras_model import name_of

_Job = Mapping[str, Any]
_OPERATIONS = "ops"
_SEED = 65


@dataclass(frozen=True, kw_only=True)
class _Setting:
    """A class or a function of Keras with its arguments.

    Attributes:
        name: such as `ops.pad(mode=reflect on [2, 5, 4])`.
        made_of: the class or the function.
        arguments: those that are no tensors.
        shapes: those of the tensors; empty: the first ones that it takes.
    """

    name: str
    made_of: Callable[..., Any]
    arguments: Mapping[str, Any]
    shapes: list[list[int]]


def main(job: _Job, out: Path) -> None:
    """Make the cases."""
    keras.config.disable_traceback_filtering()
    cases.make(out, f"Keras {keras.__version__}", _wanted(job, out))


def _wanted(job: _Job, out: Path) -> Wanted:
    """Yield each case and the function that fills its folder."""
    for kind, fill in _KINDS.items():
        is_one = inspect.isfunction if kind == _OPERATIONS else inspect.isclass
        for name, made_of in inspect.getmembers(getattr(keras, kind), is_one):
            is_alias = inspect.isclass(made_of) and made_of.__name__ != name
            is_left_out = is_alias or re.fullmatch(job["left_out"], name)
            if not is_left_out and re.search(job["only"], f"{kind}.{name}"):
                for setting in _settings(f"{kind}.{name}", made_of, job):
                    yield _case(setting.name, out), partial(fill, setting, job)
    for name, build in composed.ALL.items():
        if re.search(job["only"], f"composed.{name}"):
            inputs, outputs = build()
            yield _case(name, out), partial(_save, inputs, outputs)


def _case(name: str, out: Path) -> Case:
    slug = re.sub(r"\W+", "-", name)
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return Case(name=name, folder=out / f"{slug}-{digest}")


def _settings(name: str, made_of: Callable[..., Any], job: _Job) -> Iterator[_Setting]:
    """Yield the settings of a class or a function, first that with its required arguments."""
    known = inspect.signature(made_of).parameters.keys()
    alone = [{"arguments": {key: value}} for key, values in job["odd"].items() for value in values]
    needed = {key: job["required"][key] for key in _required(made_of) if key in job["required"]}
    for each in ({"arguments": {}}, *alone, *job["setting"]):
        own = each["arguments"]
        shapes = each.get("shapes", [])
        if each.get("of", name) == name and own.keys() <= known:
            arguments = ", ".join(f"{key}={value}" for key, value in own.items())
            words = " on ".join(filter(None, (arguments, " and ".join(map(str, shapes)))))
            yield _Setting(
                name=f"{name}({words})", made_of=made_of, arguments=needed | own, shapes=shapes
            )


def _required(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments without a default."""
    parameters = inspect.signature(function).parameters
    return [name for name, each in parameters.items() if each.default is each.empty]


def _fill_with_model(setting: _Setting, job: _Job, folder: Path) -> None:
    """Save a model of one layer or one operation."""
    inputs, outputs = _built(setting, job)
    name = setting.made_of.__name__
    _save(inputs, outputs, folder, name in job["absolute"], name in job["definite"])


def _built(setting: _Setting, job: _Job) -> tuple[list[Any], Any]:
    """Symbolic inputs of the first shapes that Keras takes, and the outputs.

    Keras takes some shapes on which no backend computes an operation. They are left out if there
    are others.
    """
    tensors = [key for key in _required(setting.made_of) if key in job["tensors"]]
    dtype = "int32" if re.fullmatch(job["whole"], setting.made_of.__name__) else "float32"
    tried = job["shapes"][_OPERATIONS if tensors else "layers"]
    built = []
    refusals = []
    for shapes in [setting.shapes] if setting.shapes else tried:
        if tensors and len(tensors) != len(shapes):
            shapes = shapes[:1] * len(tensors)
        inputs = [keras.Input(batch_shape=shape, dtype=dtype) for shape in shapes]
        try:
            built.append((inputs, _called(setting, tensors, inputs, job)))
            if tensors:
                values = [_drawn(each, np.random.default_rng(_SEED)) for each in inputs]
                _called(setting, tensors, values, job)
        except Exception as e:  # noqa: BLE001  whatever Keras or its backend raises
            refusals.append(e)
        else:
            return built[-1]
    if not built:
        raise refusals[-1]
    return built[0]


def _called(setting: _Setting, tensors: Sequence[str], values: Sequence[Any], job: _Job) -> Any:
    """The outputs of a layer, or of an operation whose arguments `tensors` have these values."""
    if tensors:
        given = dict(zip(tensors, values, strict=True))
        given |= {key: [given[key]] * 2 for key in job["lists"] if key in given}
        return setting.made_of(**given, **setting.arguments)
    layer = setting.made_of(**setting.arguments)
    if len(values) == 1 or setting.made_of.__name__ in job["calls"]:
        return layer(*values)
    return layer(values)


def _save(
    inputs: Sequence[Any],
    outputs: Any,
    folder: Path,
    is_absolute: bool = False,
    is_definite: bool = False,
) -> None:
    """Save the model and its inputs.

    Args:
        is_absolute: whether the sign of the outputs is open.
        is_definite: whether the inputs are positive definite matrices.
    """
    flat = [each for each in keras.tree.flatten(outputs) if keras.utils.is_keras_tensor(each)]
    if not flat:
        raise ValueError("it gives no tensor of its inputs")
    if is_absolute:
        flat = list(map(ops.abs, flat))
    model = keras.Model(list(inputs), flat)
    generator = np.random.default_rng(_SEED)
    for weight in model.weights:
        if "float" in weight.dtype:
            value = generator.standard_normal(weight.shape) * 0.3
            if len(weight.shape) < 2:
                value += np.asarray(weight)
            weight.assign(np.abs(value) + 0.1 if "variance" in weight.name else value)
    model.save(folder / "model.keras")
    arrays = {}
    for each in model.inputs:
        array = _drawn(each, generator)
        if is_definite:
            square = array @ np.swapaxes(array, -1, -2)
            array = (square + np.eye(square.shape[-1])).astype(array.dtype)
        arrays[name_of(each)] = array
    np.savez(folder / "inputs.npz", allow_pickle=False, **arrays)


def _drawn(tensor: Any, generator: np.random.Generator) -> np.ndarray:
    """Random values of a symbolic tensor: 0 to 4, or normal ones."""
    if tensor.dtype == "int32":
        return generator.integers(0, 5, tensor.shape).astype(np.int32)
    return generator.standard_normal(tensor.shape).astype(tensor.dtype)


def _fill_with_object(setting: _Setting, job: _Job, folder: Path) -> None:
    """Store a loss or a metric as a file does, with labels, predictions, and its value."""
    name = setting.made_of.__name__
    made = setting.made_of(**setting.arguments)
    generator = np.random.default_rng(_SEED)
    predicted = generator.random((6, 4, 5), np.float32) + 0.05
    if not setting.arguments.get("from_logits"):
        predicted /= predicted.sum(-1, keepdims=True)
    if name.startswith("Sparse"):
        true: np.ndarray = generator.integers(0, 5, (6, 4)).astype(np.int32)
    elif re.search(job["classes"], name):
        true = np.eye(5, dtype=np.float32)[generator.integers(0, 5, (6, 4))]
    else:
        true = generator.standard_normal((6, 4, 5)).astype(np.float32) * 2
    write_json(folder / "object.json", keras.saving.serialize_keras_object(made))
    np.savez(folder / "inputs.npz", allow_pickle=False, true=true, predicted=predicted)
    value = value_of(made, true, predicted)
    np.savez(folder / "expected.npz", allow_pickle=False, **{"0": value})


def value_of(made: Callable[..., Any], true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """The value of a loss or a metric."""
    given = ops.convert_to_tensor(true), ops.convert_to_tensor(predicted)
    return np.asarray(ops.convert_to_numpy(made(*given)))


_KINDS = {
    "layers": _fill_with_model,
    _OPERATIONS: _fill_with_model,
    "losses": _fill_with_object,
    "metrics": _fill_with_object,
}
"""Module of Keras → the function that fills the folder of a setting."""
