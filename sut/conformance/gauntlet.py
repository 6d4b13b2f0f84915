"""Makes small `.keras` files, one for each layer, operation, loss and metric of Keras and each of
its settings: `python -m sut.conformance.gauntlet JOB`.

JOB is a JSON file with `operations.toml` of the harness. The cases follow from Keras' signatures: a
required argument gets the value that the data have for its name, and each optional one each of its
values there. Each case is a folder below `out` with `inputs.npz` and `model.keras`, or, for a loss
or a metric, `object.json`, as a file stores it, and `expected.npz`, its value before that.
`cases.json` lists the cases, and says why others were not made.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from formats.writing import write_json
from sut.conformance import composed

_Arguments = dict[str, Any]
_Shape = list[int]
_SEED = 65
_IN_A_NAME = 80
_OF_OBJECTS = {"losses": keras.losses.Loss, "metrics": keras.metrics.Metric}
_ABSTRACT = ("Layer", "Loss", "Metric", "Wrapper")


class _NotMade(Exception):
    """No case can be made of it. The message says why."""


def main(path: Path) -> None:
    """Make the cases of the job at this path."""
    job = json.loads(path.read_text(encoding="utf-8"))
    out = Path(job["out"])
    keras.config.disable_traceback_filtering()
    cases: list[dict[str, str]] = []
    only = re.compile(job["only"])
    for kind, make in {
        "layers": _layer,
        "ops": _operation,
        "losses": _object,
        "metrics": _object,
    }.items():
        for name in sorted(dir(getattr(keras, kind))):
            is_left_out = re.fullmatch(job["left_out"], name)
            if is_left_out or not only.search(f"{kind}.{name}"):
                continue
            for words, arguments, shapes in _settings(kind, name, job):
                case = f"{kind}.{name}({words})"
                folder = _folder(case)
                row = {"case": case, "folder": folder, "reason": ""}
                (out / folder).mkdir(exist_ok=True)
                try:
                    make(kind, name, arguments, shapes, out / folder, job)
                except Exception as e:  # noqa: BLE001  whatever Keras raises for these arguments
                    row["reason"] = f"{type(e).__name__}: {' '.join(str(e).split())[:200]}"
                cases.append(row)
    for name, function in composed.ALL.items():
        if only.search(f"composed.{name}"):
            folder = _folder(name)
            (out / folder).mkdir(exist_ok=True)
            inputs, outputs = function()
            _save(inputs, outputs, out / folder)
            cases.append({"case": name, "folder": folder, "reason": ""})
    write_json(out / "cases.json", {"cases": cases, "version": keras.__version__})


def _folder(case: str) -> str:
    """The name of the folder of a case."""
    digest = hashlib.sha256(case.encode()).hexdigest()[:8]
    return re.sub(r"\W+", "-", case).strip("-")[:_IN_A_NAME] + f"-{digest}"


def _settings(
    kind: str, name: str, job: Mapping[str, Any]
) -> Iterator[tuple[str, _Arguments, list[_Shape]]]:
    """Yield (words, arguments, shapes of its tensors or none) of each case of a class or function.
    A class or a function without a case yields nothing.
    """
    function = getattr(getattr(keras, kind), name)
    is_class = inspect.isclass(function)
    if is_class and function.__name__ != name:  # another name of the same class
        return
    if kind == "ops" and (is_class or not callable(function)):
        return
    if kind != "ops":
        base = _OF_OBJECTS.get(kind, keras.Layer)
        if not is_class or not issubclass(function, base) or name in _ABSTRACT:
            return
    parameters = inspect.signature(function).parameters
    needed = {}
    for key, parameter in parameters.items():
        is_tensor = kind == "ops" and key in job["tensors"]
        if parameter.default is parameter.empty and key in job["required"] and not is_tensor:
            needed[key] = job["required"][key]
    yield "", needed, []
    for key, values in job["odd"].items():
        if key in parameters:
            for value in values:
                yield _words({key: value}), {**needed, key: value}, []
    for together in job["together"]:
        if together.keys() <= parameters.keys():
            yield _words(together), {**needed, **together}, []
    for own in job["case"]:
        if own["of"] == f"{kind}.{name}":
            shapes = own.get("shapes", [])
            words = " on ".join(filter(None, (_words(own["arguments"]), _listed(shapes))))
            yield words, {**needed, **own["arguments"]}, shapes


def _words(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in arguments.items())


def _listed(shapes: Sequence[_Shape]) -> str:
    return " and ".join(map(str, shapes))


def _layer(
    kind: str, name: str, arguments: _Arguments, shapes: list[_Shape], folder: Path, job: Any
) -> None:
    """Save a model of one layer, on the first shapes that it takes."""
    inner = dict(arguments)
    if "layer" in inner or "forward_layer" in inner:
        raise _NotMade("it wraps another layer")
    tried = [shapes] if shapes else job["shapes_of_layers"]
    for each in tried:
        layer = getattr(keras.layers, name)(**inner)
        dtype = "int32" if name in job["whole_numbers"] else "float32"
        inputs = [keras.Input(batch_shape=shape, dtype=dtype) for shape in each]
        try:
            made = layer(*inputs) if name in job["calls"] else layer(_alone(inputs))
        except Exception as e:  # noqa: BLE001  whatever Keras raises
            refusal = e
            continue
        _save(inputs, made, folder)
        return
    raise refusal


def _alone(inputs: list[Any]) -> Any:
    """The one input, or the list of them."""
    return inputs if len(inputs) > 1 else inputs[0]


def _operation(
    kind: str, name: str, arguments: _Arguments, shapes: list[_Shape], folder: Path, job: Any
) -> None:
    """Save a model of one operation, on the first shapes that it takes."""
    function = getattr(ops, name)
    parameters = inspect.signature(function).parameters
    tensors = [
        key
        for key, each in parameters.items()
        if key in job["tensors"] and each.default is each.empty
    ]
    if not tensors:
        raise _NotMade("it has no argument that is known to be a tensor")
    several = [key for key in tensors if key in job["lists"]]
    dtype = "int32" if re.fullmatch(job["whole"], name) else "float32"
    absolute = job["absolute"] if name in job["absolute"] else []
    symbolic: list[tuple[list[Any], Any]] = []
    tried = [shapes] if shapes else job["shapes_of_operations"]
    for shape in tried:
        own = shape if len(shape) == len(tensors) else [shape[0]] * len(tensors)
        inputs = [keras.Input(batch_shape=each, dtype=dtype) for each in own]
        try:
            made = function(**_given(tensors, several, inputs), **arguments)
        except Exception as e:  # noqa: BLE001  whatever Keras raises
            refusal = e
            continue
        if not any(map(keras.utils.is_keras_tensor, keras.tree.flatten(made))):
            raise _NotMade("it gives no tensor of its inputs")
        symbolic.append((inputs, made))
        # Keras takes some shapes that no backend computes.
        values = [_drawn(each, np.random.default_rng(_SEED)) for each in inputs]
        try:
            function(**_given(tensors, several, values), **arguments)
        except Exception:  # noqa: BLE001, S112  whatever Keras or its backend raises
            continue
        _save(inputs, made, folder, absolute, name in job["definite"])
        return
    if not symbolic:
        raise refusal
    _save(*symbolic[0], folder, absolute, name in job["definite"])


def _given(tensors: Sequence[str], several: Sequence[str], values: Sequence[Any]) -> _Arguments:
    """The arguments that are tensors, each a list of two if it is one of `several`."""
    pairs = zip(tensors, values, strict=True)
    return {key: [value, value] if key in several else value for key, value in pairs}


def _save(
    inputs: Sequence[Any],
    made: Any,
    folder: Path,
    absolute: Sequence[str] = (),
    definite: bool = False,
) -> None:
    """Save the model and its inputs.

    Args:
        absolute: not empty if the sign of the outputs is open.
        definite: whether the inputs are positive definite matrices.
    """
    outputs = [each for each in keras.tree.flatten(made) if keras.utils.is_keras_tensor(each)]
    if absolute:
        outputs = [ops.abs(each) for each in outputs]
    model = keras.Model(list(inputs), outputs)
    generator = np.random.default_rng(_SEED)
    for weight in model.weights:
        if "float" in weight.dtype:
            drawn = generator.standard_normal(weight.shape) * 0.3
            value = np.asarray(weight) * (0.0 if len(weight.shape) > 1 else 1.0) + drawn
            weight.assign(np.abs(value) + 0.1 if "variance" in weight.name else value)
    model.save(folder / "model.keras")
    arrays = {}
    for each in model.inputs:
        array = _drawn(each, generator)
        if definite:
            square = array @ np.swapaxes(array, -1, -2)
            array = (square + np.eye(square.shape[-1])).astype(array.dtype)
        arrays[each._keras_history.operation.name] = array
    np.savez(folder / "inputs.npz", allow_pickle=False, **arrays)


def _drawn(tensor: Any, generator: np.random.Generator) -> np.ndarray:
    """Random values of a symbolic tensor: 0 to 4, or normal ones."""
    if tensor.dtype == "int32":
        return generator.integers(0, 5, tensor.shape).astype(np.int32)
    return generator.standard_normal(tensor.shape).astype(tensor.dtype)


def _object(
    kind: str, name: str, arguments: _Arguments, shapes: list[_Shape], folder: Path, job: Any
) -> None:
    """Store a loss or a metric as a file does, with labels, predictions, and its value."""
    made = getattr(getattr(keras, kind), name)(**arguments)
    generator = np.random.default_rng(_SEED)
    predicted = generator.random((6, 4, 5), np.float32) + 0.05
    if not arguments.get("from_logits"):
        predicted /= predicted.sum(-1, keepdims=True)
    if name.startswith("Sparse"):
        true: np.ndarray = generator.integers(0, 5, (6, 4)).astype(np.int32)
    elif "class_weighting" in arguments or re.search(
        "Cross|Hinge|Accura|Precis|Recall|True|False|AUC", name
    ):
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


_MAKERS = {"layers": _layer, "ops": _operation, "losses": _object, "metrics": _object}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
