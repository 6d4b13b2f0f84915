"""Loads the model of a `.keras` file with Keras 3 in float32, for the SUTs and for the description
of a model to train. The reference shares none of this code.
"""

from __future__ import annotations

import importlib
import json
import runpy
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras

from sut import keras_config
from sut.contract import Batch, Unsupported, Workload

MODEL = "model.keras"
CODE = "custom.py"
"""The files of a checkpoint: the user's file, and the code of its custom layers, if any."""
_FLOATS = ("float", "mixed_", "bfloat")


def load(workload: Workload) -> Any:
    """Return the model. Its inputs and outputs are dicts: those in `inputs` and `outputs` of its
    configuration. All weights and layers are float32, whatever the file says.

    Raises Unsupported with Keras' own words if Keras does not load the file.
    """
    model = _loaded(workload, _set_float32, compiled=False)
    names = workload.config["model"]
    inputs = dict(zip(names["inputs"], model.inputs, strict=True))
    outputs = dict(zip(names["outputs"], model.outputs, strict=True))
    return keras.Model(inputs, outputs)


def load_compiled(workload: Workload) -> Any:
    """Return the model as it was saved, in float32, compiled with the file's own losses and
    optimizer, whose state is that of the file. It has no metrics, and its rates of dropout are 0.

    Raises Unsupported with Keras' own words if Keras does not load the file.
    """
    keras.utils.set_random_seed(0)  # for random layers without a rate
    jit_compile = workload.execution == "xla"
    model = _loaded(workload, lambda config: _to_train(config, jit_compile), compiled=True)
    if keras.backend.backend() == "tensorflow":
        add_up_gradients(model.optimizer)
    return model


def add_up_gradients(optimizer: Any) -> None:
    """Let the optimizer add up the gradients of an embedding, as other backends do. TensorFlow has
    one gradient for each token, and Keras 3.15 squares these one by one. The second moment of a
    repeated token is then the sum of the squares instead of the square of the sum: after 20 steps
    at size tiny the losses are 0.03 of their deviation off.
    """
    dense = importlib.import_module("tensorflow").convert_to_tensor
    own = optimizer.apply

    def apply(gradients: Sequence[Any], trainable_variables: Any = None) -> None:
        given = [each if each is None else dense(each) for each in gradients]
        own(given, trainable_variables)

    optimizer.apply = apply


def inputs(model: Any, workload: Workload, batch: Batch) -> Any:
    """Return the inputs of a batch, as the file's own model takes them."""
    given = {name: batch[name] for name in workload.config["model"]["inputs"]}
    return next(iter(given.values())) if isinstance(model, keras.Sequential) else given


def labels(model: Any, workload: Workload, batch: Batch) -> Any:
    """Return the labels of a batch, as `fit` of the file's own model takes them. An output without
    a loss has none.
    """
    names = workload.config["model"]["labels"]
    given = [batch[name] for name in names if name]
    if isinstance(model, keras.Sequential):
        return given[0]
    if isinstance(model.output, dict):
        keys = [key for key, name in zip(sorted(model.output), names, strict=True) if name]
        return dict(zip(keys, given, strict=True))
    if len(given) < len(names):
        return tuple(given)
    # TensorFlow's pipelines take a list for one tensor.
    structure = keras.tree.lists_to_tuples(model.output)
    return keras.tree.pack_sequence_as(structure, given)


def _loaded(workload: Workload, change: Callable[[Any], None], *, compiled: bool) -> Any:
    """The model of the file. `change`: changes the configuration in place."""
    path = workload.checkpoint / MODEL
    _run_code(workload.checkpoint / CODE)
    with tempfile.TemporaryDirectory() as folder:
        try:
            return keras.saving.load_model(
                _changed(path, Path(folder), change), compile=compiled, safe_mode=True
            )
        except (TypeError, ValueError, KeyError, NotImplementedError) as e:
            # Keras quotes the innermost error at the end, after the whole configuration.
            innermost = str(e).rpartition("Exception encountered: ")[2]
            words = innermost.strip().split("\n")[0]
            raise Unsupported(f"Keras {keras.__version__} does not load the file: {words}") from e


def _run_code(path: Path) -> None:
    """Run the file, which registers its layers with Keras. Raises Unsupported if it fails."""
    if not path.exists():
        return
    try:
        runpy.run_path(str(path), run_name="custom_layers")
    except Exception as e:
        raise Unsupported(f"--custom: its code raises {type(e).__name__}: {e}") from e


def _changed(path: Path, folder: Path, change: Callable[[Any], None]) -> Path:
    """A file with the changed configuration. It is the file itself if nothing is to be changed."""
    with zipfile.ZipFile(path) as archive:
        text = archive.read("config.json")
    if b"keras_hub" in text:
        importlib.import_module("keras_hub")  # it registers its layers
    config = json.loads(text)
    change(config)
    if config == json.loads(text):
        return path
    copy = shutil.copyfile(path, folder / MODEL)
    with zipfile.ZipFile(copy, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of two members with one name, the last one is read
        archive.writestr("config.json", json.dumps(config))
    return copy


def _to_train(config: Any, jit_compile: bool) -> None:
    """Change the configuration of a model: float32, no rates of dropout, no metrics."""
    _set_float32(config)
    for each in keras_config.objects(config["config"]):
        for key in keras_config.random_rates(each):
            each["config"][key] = 0.0
    config["compile_config"] |= {
        "metrics": None,
        "weighted_metrics": None,
        "run_eagerly": False,
        "steps_per_execution": 1,
        "jit_compile": jit_compile,
    }


def _set_float32(config: Any) -> None:
    """Set the precision of all layers and policies. Whole numbers, and the dtype of an input,
    stay.
    """
    for each in keras_config.objects(config):
        inner = each.get("config")
        if each["class_name"] == "InputLayer" or not isinstance(inner, dict):
            continue
        key = "name" if each["class_name"] == "DTypePolicy" else "dtype"
        if str(inner.get(key)).startswith(_FLOATS):
            inner[key] = "float32"
