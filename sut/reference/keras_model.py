"""Loads the model of a `.keras` file by Keras' own `load_model`, in float64. Inputs and outputs are
those that the loaded model has. No code is shared with a SUT.

A file fixes the precision of each layer, so a copy is loaded whose precisions are float64.
"""

from __future__ import annotations

import importlib
import json
import runpy
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras.src.backend.common import dtypes

from sut.contract import Batch, Unsupported, Workload

_RATES = {"rate": "Dropout", "stddev": "GaussianNoise", "dropout": "", "recurrent_dropout": ""}
"""Attribute by which a layer draws random numbers → a part of the names of its classes."""
_COMPILED = {
    "metrics": None,
    "weighted_metrics": None,
    "run_eagerly": False,
    "steps_per_execution": 1,
    "jit_compile": False,
}
_scope = ExitStack()


def configure(workload: Workload) -> None:
    """Set the device, and the precision of whatever a file does not fix. Products of float32 never
    use tf32.
    """
    keras.config.disable_traceback_filtering()  # a message then begins with its cause
    keras.config.set_floatx(workload.precision)
    keras.config.set_dtype_policy(workload.precision)
    framework = importlib.import_module(keras.backend.backend())
    on_cpu = workload.device == "cpu"
    if keras.backend.backend() == "torch":
        # Keras 3.15 has float64 only on TensorFlow. Elsewhere this table turns it into float32.
        dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"
        framework.backends.cudnn.allow_tf32 = False
        if on_cpu:
            _scope.enter_context(keras.device("cpu"))
    elif keras.backend.backend() == "tensorflow":
        framework.config.experimental.enable_tensor_float_32_execution(False)
        if on_cpu:
            framework.config.set_visible_devices([], "GPU")


def load(workload: Workload, *, compiled: bool = False) -> tuple[Any, set[str]]:
    """Return the model as it was saved, and the names of the layers that compute in float32,
    because they fail in float64.

    Raises Unsupported with the framework's own words if Keras does not load the file.
    """
    _run_code(workload.checkpoint / "custom.py")
    in_float32: set[str] = set()
    while True:
        try:
            with tempfile.TemporaryDirectory() as folder:
                copy = _copy(workload, Path(folder) / "model.keras", in_float32)
                return keras.saving.load_model(copy, compile=compiled), in_float32
        except Exception as e:  # whatever a framework or a user's layer raises
            cause: BaseException = e
            while cause.__context__:  # Keras raises others with the whole configuration
                cause = cause.__context__
            # The name of the innermost layer in whose code an error was raised. None: in no
            # layer's.
            layer = None
            trace = cause.__traceback__
            while trace:
                own = trace.tb_frame.f_locals.get("self")
                if isinstance(own, keras.Layer) and not isinstance(own, keras.Model):
                    layer = own.name
                trace = trace.tb_next
            if layer is None or layer in in_float32 or workload.precision == "float32":
                words = str(cause).strip().split("\n")[0]
                raise Unsupported(
                    f"Keras {keras.__version__} does not load the file: {words}"
                ) from e
            in_float32.add(layer)


def flat(inputs: Iterable[Any], outputs: Iterable[Any]) -> Any:
    """Return the model of these lists of inputs and outputs, compiled to predict without XLA."""
    model = keras.Model(list(inputs), list(outputs))
    model.compile(optimizer=None, loss=None, metrics=None, jit_compile=False)
    return model


def name_of(tensor: Any) -> str:
    """Return the name of the layer or the operation that computes a symbolic tensor."""
    return str(tensor._keras_history.operation.name)


def given(model: Any, batch: Batch) -> list[np.ndarray]:
    """Return the inputs of a batch in the order of the model's, in its dtypes."""
    return [np.asarray(batch[name_of(each)], each.dtype) for each in model.inputs]


def outputs(model: Any) -> Any:
    """Return the symbolic outputs of a model in their structure. A Sequential has one."""
    return model.outputs[0] if isinstance(model, keras.Sequential) else model.output


def output_names(model: Any) -> list[str]:
    """Return the name of each output: its keys in a dict, else the name of its layer. A layer with
    several outputs is numbered.
    """
    layers = list(map(name_of, model.outputs))
    names = []
    for (path, _), layer in zip(keras.tree.flatten_with_path(outputs(model)), layers, strict=True):
        if path and isinstance(path[-1], str):
            names.append(".".join(map(str, path)))
        elif layers.count(layer) > 1:
            names.append(f"{layer}_{path[-1]}")
        else:
            names.append(layer)
    return names


def nodes(model: Any) -> Iterator[Any]:
    """Yield each call of a layer or an operation of a flat model, each after those it needs."""
    for _, found in sorted(model._nodes_by_depth.items(), reverse=True):
        yield from found


def below_float64(model: Any) -> set[str]:
    """Return the names of the layers and operations of a flat model whose values are floats of
    another precision than float64.
    """
    tensors = [tensor for node in nodes(model) for tensor in node.output_tensors]
    floats = [each for each in tensors if "float" in keras.backend.standardize_dtype(each.dtype)]
    return {name_of(each) for each in floats if each.dtype != "float64"}


def without_random_rates(model: Any) -> None:
    """Set rates of dropout and deviations of noise to 0."""
    for layer in model._flatten_layers():
        for key, kind in _RATES.items():
            if isinstance(vars(layer).get(key), int | float) and kind in type(layer).__name__:
                setattr(layer, key, 0.0)


def _run_code(path: Path) -> None:
    """Run the file, which registers its layers with Keras. Raises Unsupported if it fails."""
    if not path.exists():
        return
    try:
        runpy.run_path(str(path), run_name="custom_layers")
    except Exception as e:
        raise Unsupported(f"--custom: its code raises {type(e).__name__}: {e}") from e


def _copy(workload: Workload, copy: Path, in_float32: set[str]) -> Path:
    """Write the file with other precisions. Training has neither metrics nor XLA."""
    shutil.copyfile(workload.checkpoint / "model.keras", copy)
    with zipfile.ZipFile(copy, "a") as archive, warnings.catch_warnings():
        text = archive.read("config.json")
        if b"keras_hub" in text:
            importlib.import_module("keras_hub")  # it registers its layers
        config = json.loads(text)
        _set_precision(config, workload.precision, in_float32)
        if config.get("compile_config"):
            config["compile_config"] |= _COMPILED
        warnings.simplefilter("ignore")  # of two members with one name, the last one is read
        archive.writestr("config.json", json.dumps(config))
    return copy


def _set_precision(value: Any, precision: str, in_float32: set[str]) -> None:
    """Set each dtype of floats in a configuration: of layers, of inputs and of stored values."""
    if isinstance(value, list):
        for each in value:
            _set_precision(each, precision, in_float32)
    if not isinstance(value, Mapping):
        return
    config = value.get("config")
    if isinstance(config, dict) and isinstance(value.get("class_name"), str):
        if config.get("name") in in_float32:
            precision = "float32"
        key = "name" if value["class_name"] == "DTypePolicy" else "dtype"
        if str(config.get(key)).startswith(("float", "mixed_", "bfloat")):
            config[key] = precision
    for each in value.values():
        _set_precision(each, precision, in_float32)
