"""Loads the model of a `.keras` file with Keras 3, in one precision, by the names of its inputs and
outputs. The SUTs and their reference both use it, each on its own backend.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import keras

from sut import keras_config
from sut.contract import Unsupported, Workload

MODEL, CODE = "model.keras", "custom.py"
"""The files of a checkpoint: the user's file, and the code of its custom layers, if any."""
_FLOATS = ("float", "mixed_", "bfloat")


def load(workload: Workload) -> Any:
    """Return the model. Its inputs and outputs are dicts: those in `inputs` and `outputs` of its
    configuration. All weights and layers are float32, whatever the file says.

    Raises Unsupported with Keras' own words if Keras does not load the file.
    """
    path = workload.checkpoint / MODEL
    _run_code(workload.checkpoint / CODE)
    with tempfile.TemporaryDirectory() as folder:
        try:
            model = keras.saving.load_model(
                _in_dtype(path, Path(folder), "float32"), compile=False, safe_mode=True
            )
        except (TypeError, ValueError, KeyError, NotImplementedError) as e:
            # Keras quotes the innermost error at the end, after the whole configuration.
            innermost = str(e).rpartition("Exception encountered: ")[2]
            words = innermost.strip().split("\n")[0]
            raise Unsupported(f"Keras {keras.__version__} does not load the file: {words}") from e
    names = workload.config["model"]
    inputs = dict(zip(names["inputs"], model.inputs, strict=True))
    outputs = dict(zip(names["outputs"], model.outputs, strict=True))
    return keras.Model(inputs, outputs)


def _run_code(path: Path) -> None:
    """Run the file, which registers its layers with Keras. Raises Unsupported if it fails."""
    if not path.exists():
        return
    spec = importlib.util.spec_from_file_location("custom_layers", path)
    assert spec is not None
    assert spec.loader is not None
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except Exception as e:
        raise Unsupported(f"--custom: its code raises {type(e).__name__}: {e}") from e


def _in_dtype(path: Path, folder: Path, dtype: str) -> Path:
    """A file with this model, whose layers all have the precision `dtype`. It is the file itself if
    they have it already.
    """
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
        if "keras_hub" in json.dumps(config):
            importlib.import_module("keras_hub")  # it registers its layers
        changed = [_set_dtype(each, dtype) for each in keras_config.objects(config)]
        if not any(changed):
            return path
        copy = folder / MODEL
        with zipfile.ZipFile(copy, "w") as new:
            for name in archive.namelist():
                if name != "config.json":
                    with archive.open(name) as source, new.open(name, "w") as target:
                        while part := source.read(1 << 24):
                            target.write(part)
            new.writestr("config.json", json.dumps(config))
    return copy


def _set_dtype(described: dict[str, Any], dtype: str) -> bool:
    """Set the precision of a layer, or of a policy. Returns whether it was another one. Whole
    numbers, and the dtype of an input, stay.
    """
    config = described.get("config")
    if described["class_name"] == "InputLayer" or not isinstance(config, dict):
        return False
    key = "name" if described["class_name"] == "DTypePolicy" else "dtype"
    found = config.get(key)
    if not isinstance(found, str) or not found.startswith(_FLOATS) or found == dtype:
        return False
    config[key] = dtype
    return True
