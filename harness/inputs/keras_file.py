"""Reads the description of a model from a `.keras` file, the format of Keras 3.

The file is a zip with config.json, metadata.json and model.weights.h5. Nothing in it is run, and
only a worker has Keras. Every error is one sentence.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from formats import bounds
from formats.workload import Config
from harness.errors import Refused, UsageError, about
from harness.inputs.user_folder import LARGEST_JSON, Document
from sut import keras_config
from sut.registry import KERAS_PACKAGES

SUFFIX = ".keras"
CUSTOM = "custom "
"""The beginning of the name of a loss that is a user's own code."""
_CONFIG = "config.json"
_METADATA = "metadata.json"
_WEIGHTS = "model.weights.h5"
_OLD_SUFFIXES = (".h5", ".hdf5")
_SAVED_MODEL = "saved_model.pb"
_CONVERT = (
    'python -c \'import keras; keras.saving.load_model("{path}", compile=False)'
    '.save("{stem}.keras")\''
)
_CONVERT_TO_H5 = (
    "TF_USE_LEGACY_KERAS=1 python -c 'import tf_keras;"
    ' tf_keras.models.load_model("{path}", compile=False).save("{stem}.h5")\''
)
_IDS = {
    "Embedding": "input_dim",
    "ReversibleEmbedding": "input_dim",
    "CategoryEncoding": "num_tokens",
}
"""Layer that reads whole numbers → the key of its config with the number of different ones."""
_COMPARISONS = ("NotEqual", "Equal", "Greater")
"""Layers that make a mask of an input by comparing it with a number."""
_TAKEN = ("file", "allow_pickle")  # arguments of numpy.savez, which takes arrays by name
_LARGEST_SCALE = 0.01
_NOT_RUN = ("InputLayer", "Dropout")


@dataclass(frozen=True, kw_only=True)
class Input:
    """An input of a model.

    Attributes:
        name: the name of its InputLayer.
        shape: its shape without the axis of samples. None: any length.
        dtype: as numpy names it.
        ids: it holds whole numbers from 0 to `ids` - 1, because a layer looks them up in a table;
            None: no such layer reads it.
        padding: the value that means padding, as a layer says that makes a mask of it; None: none.
        features: whether a place is padding only if all values of its last axis are.
        bins: the boundaries between the bins into which a layer sorts its values; empty: none.
        pixels: whether it holds the pixels of a picture, from 0 to 255.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    ids: int | None = None
    padding: float | None = None
    features: bool = False
    bins: tuple[float, ...] = ()
    pixels: bool = False


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a `.keras` file says about its model.

    Attributes:
        inputs: in the order of Keras' `model.inputs`.
        outputs: a name for each of `model.outputs`, in their order.
        depth: the number of its layers.
        policies: the precisions of its layers, such as `float32` or `mixed_bfloat16`.
        version: the version of Keras that saved it.
        frozen: the settings of `compile` that the file keeps and that make Keras slower.
        weight_bytes: the bytes of model.weights.h5, which include an optimizer's variables.
        losses: for each output, the name of its loss; None: it has none. Empty: it is not trained.
        drops_out: whether a layer has a rate of dropout, or a deviation of noise.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    depth: int
    policies: tuple[str, ...]
    version: str
    frozen: tuple[str, ...]
    weight_bytes: int
    losses: tuple[str | None, ...]
    drops_out: bool


def is_path(value: str) -> bool:
    """Return whether the value of --model is a path, and not the name of a model."""
    path = Path(value)
    return "/" in value or path.suffix.lower() in (SUFFIX, *_OLD_SUFFIXES) or path.is_dir()


def read(path: Path, custom: bool, trains: bool = False) -> Description:
    """Read the description of the model. Raises UsageError if Keras would not load the file, or if
    the harness cannot make inputs for the model.

    Args:
        custom: whether the user gives a file with the code of custom layers.
        trains: whether the model is to be trained.
    """
    with about(f"--model {path}"):
        return _description(path, custom, trains)


def _description(path: Path, custom: bool, trains: bool) -> Description:
    _check_kind(path)
    config, metadata, weight_bytes = _documents(path)
    version = str(metadata.get("keras_version", ""))
    if re.match(r"[012]\.", version):
        raise Refused(
            f"is a file of Keras {version}, which Keras 3 does not load and no SUT here runs:"
            f" {_from_keras_2(path)}"
        )
    own = config.get("config")
    if not isinstance(own, dict) or "layers" not in own:
        raise Refused(
            f"its class {config.get('class_name')} is neither Functional nor Sequential, so its"
            f" inputs are not in the file: save it with {_wrapped(config)}"
        )
    _check_code(config, custom, trains)
    try:
        inputs = tuple(_inputs(own))
        outputs = tuple(_outputs(own))
        depth = sum(layer["class_name"] not in _NOT_RUN for layer in _all_layers(own))
    except (KeyError, TypeError, IndexError, AttributeError, StopIteration) as e:
        raise Refused(
            f"its {_CONFIG} is not one of Keras 3 ({type(e).__name__}: {e}): save the model again"
            " with Keras 3"
        ) from None
    policies = set(_policies(own))
    # The settings with which Keras does not compile the model after it has loaded the file.
    compiled = config.get("compile_config") or {}
    slow = {"jit_compile": False, "run_eagerly": True}
    frozen = tuple(f"{key}={value}" for key, value in slow.items() if compiled.get(key) is value)
    return Description(
        inputs=inputs,
        outputs=outputs,
        depth=max(1, depth),
        policies=tuple(sorted(policies)),
        version=version,
        frozen=frozen,
        weight_bytes=weight_bytes,
        losses=_losses(compiled.get("loss"), outputs) if trains else (),
        drops_out=any(map(keras_config.random_rates, keras_config.objects(own))),
    )


def _converted(path: str, stem: str) -> str:
    """How an .h5 file is converted."""
    return (
        f"{_CONVERT.format(path=path, stem=stem)}. Keras 3 does not load every layer of Keras 2: if"
        " that command fails, build the model with Keras 3, call"
        f' model.load_weights("{path}"), and save it as {stem}.keras'
    )


def _from_keras_2(path: Path) -> str:
    """How a file or folder that Keras 2 loads is converted."""
    stem = f"{path.stem}_3"  # so that a file is not overwritten
    first = _CONVERT_TO_H5.format(path=path, stem=stem)
    return f"convert it with {first} and then {_converted(f'{stem}.h5', stem)}"


def _wrapped(config: Config) -> str:
    """The call that saves a model of another class with its inputs."""
    if _of_keras(config):
        return "keras.Model(model.inputs, model.outputs).save(FILE)"
    return "x = keras.Input(SHAPE); keras.Model(x, model(x)).save(FILE), and give --custom"


def _of_keras(described: Config) -> bool:
    """Whether Keras or KerasHub has the code of a class or a function. A registered function is
    stored as `keras_hub>gelu_approximate`.
    """
    package = str(described.get("module") or "").partition(".")[0]
    registered = str(described.get("config", "")).partition(">")[0]
    is_function = described.get("class_name") == "function"
    return package in KERAS_PACKAGES or (is_function and registered in KERAS_PACKAGES)


def _check_kind(path: Path) -> None:
    stem = path.stem
    if path.is_dir() and (path / _SAVED_MODEL).is_file():
        raise Refused(f"is a SavedModel, which Keras 3 does not load: {_from_keras_2(path)}")
    if path.is_dir():
        raise Refused(f"is a folder; give a {SUFFIX} file")
    if not path.is_file():
        raise Refused(f"there is no such file; give a {SUFFIX} file")
    if path.suffix.lower() in _OLD_SUFFIXES:
        raise Refused(
            f"is a file of the format before Keras 3: convert it with {_converted(str(path), stem)}"
        )
    if path.suffix.lower() != SUFFIX:
        raise Refused(f"give a {SUFFIX} file, which model.save writes")


def _documents(path: Path) -> tuple[Document, Document, int]:
    """config.json, metadata.json, and the bytes of the weights."""
    try:
        with zipfile.ZipFile(path) as archive:
            config = json.loads(_member(path, archive, _CONFIG))
            metadata = json.loads(_member(path, archive, _METADATA))
            weight_bytes = archive.getinfo(_WEIGHTS).file_size
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError) as e:
        raise Refused(f"is no whole {SUFFIX} file ({e}): save or copy it again") from None
    except KeyError as e:
        raise Refused(
            f"is no {SUFFIX} file of Keras 3 ({e.args[0]}): save the model again with model.save"
        ) from None
    except (ValueError, RecursionError) as e:
        raise Refused(
            f"its {_CONFIG} or {_METADATA} is no JSON ({e}): save the model again"
        ) from None
    if not isinstance(config, dict) or not isinstance(metadata, dict):
        raise Refused(f"its {_CONFIG} or {_METADATA} is no JSON object: save the model again")
    return config, metadata, weight_bytes


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """A JSON document of the file. Raises KeyError if there is none."""
    member = archive.getinfo(name)
    file_size = member.file_size
    if file_size > LARGEST_JSON:
        raise Refused(
            f"{name} unpacks to {file_size / 1e6:,.0f} MB, and at most"
            f" {LARGEST_JSON / 1e6:.0f} MB are read: save the model again"
        )
    bounds.check(f"--model {path}: {name}", file_size, bounds.JSON)
    return archive.read(member)


def check_weights(path: Path) -> None:
    """Read the whole file. Raises UsageError if a part of it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (zipfile.BadZipFile, EOFError, OSError) as e:
        damaged = str(e)
    if damaged:
        raise UsageError(f"--model {path}: {damaged} is damaged: save or copy the file again")


def _check_code(config: Config, custom: bool, trains: bool) -> None:
    """Raises UsageError if the model contains Python code, or needs code that is not given. Metrics
    are not loaded, and losses and optimizer only to train.
    """
    register = "@keras.saving.register_keras_serializable()"
    loaded = {key: value for key, value in config.items() if key != "compile_config"}
    if trains:
        compiled = config.get("compile_config") or {}
        loaded |= {key: compiled.get(key) for key in ("loss", "optimizer")}
    for each in keras_config.objects(loaded):
        if each["class_name"] == "__lambda__":
            raise Refused(
                "has a Lambda layer or another lambda, whose Python code Keras does not load in its"
                f" safe mode: write it as a layer or a named function with {register}, save the"
                " model with it, and give --custom FILE.py"
            )
        known = "module" not in each or _of_keras(each)
        if not known and not custom:
            is_function = each["class_name"] == "function"
            name = each.get("config") if is_function else each["class_name"]
            kind = "function" if is_function else "class"
            raise Refused(
                f"Keras could not locate {kind} {name!r}, which is not one of its own: give"
                f" --custom FILE.py, in which {register} marks it"
            )
        if each["class_name"] in ("LSTM", "GRU", "SimpleRNN", "RNN"):
            settings = each.get("config")
            if isinstance(settings, dict) and settings.get("stateful"):
                raise Refused(
                    f"its layer {settings.get('name')} is stateful, so its answers depend on"
                    " earlier queries: save the model with stateful=False"
                )


def _losses(given: Any, outputs: tuple[str, ...]) -> tuple[str | None, ...]:
    """The name of each output's loss. Raises UsageError if there is none, or if they do not fit the
    outputs.
    """
    if not given:
        raise Refused(
            "was saved without a loss, so it cannot be trained: call model.compile(optimizer=...,"
            " loss=...) before model.save"
        )
    if isinstance(given, dict) and given.get("class_name") == "__tuple__":
        given = given["items"]
    losses: tuple[str | None, ...] = ()
    if isinstance(given, str) or _is_object(given):
        losses = (_name_of(given),) * len(outputs)
    elif isinstance(given, list) and len(given) == len(outputs):
        losses = tuple(map(_name_of, given))
    elif isinstance(given, dict) and set(given) <= set(outputs):
        losses = tuple(_name_of(given.get(output)) for output in outputs)
    if not any(losses):
        raise Refused(
            f"its losses do not fit its outputs {', '.join(outputs)}: call model.compile with one"
            " loss for each output, and save it again"
        )
    return losses


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("class_name"), str)


def _name_of(value: Any) -> str | None:
    """The name of a loss; that of a user's own code begins with CUSTOM."""
    if not _is_object(value):
        return value if isinstance(value, str) else None
    # The name of a function is in its config.
    name = str(value["config"] if value["class_name"] == "function" else value["class_name"])
    return name if _of_keras(value) else CUSTOM + name


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _policies(model: Config) -> Iterator[str]:
    """Yield the precision of each layer. Raises UsageError if one is quantised."""
    for each in keras_config.objects(model):
        config = each.get("config")
        if "DTypePolicy" not in each["class_name"] or not isinstance(config, dict):
            continue
        name = str(config.get("name", ""))
        if re.search(r"u?int[48]|float8|gptq|awq", name):
            raise Refused(
                f"has quantised layers ({name}), which are not measured: give the file from before"
                " quantisation"
            )
        yield name


def _all_layers(model: Config) -> Iterator[Document]:
    """The layers of a model and of the models within it."""
    for layer in model["layers"]:
        if "layers" in layer["config"]:
            yield from _all_layers(layer["config"])
        else:
            yield layer


def _inputs(model: Config) -> Iterator[Input]:
    layers = {layer["config"]["name"]: layer for layer in model["layers"]}
    names = _input_names(model)
    if not names:
        raise Refused(
            "has no inputs, because it was saved before it was built: call model.build(input_shape)"
            " or add a keras.Input, and save it again"
        )
    scales = any(_divides_pixels(layer) for layer in _all_layers(model))
    for name in names:
        config = layers[name]["config"]
        if config.get("sparse") or config.get("ragged"):
            raise Refused(
                f"its input {name} is sparse or ragged, and inputs here are dense: save the model"
                " with a dense input"
            )
        if name in _TAKEN:
            raise Refused(
                f"its input is called {name}, and numpy.savez takes no array of that name: save the"
                " model with another name of the input"
            )
        dtype = str(config["dtype"])
        if dtype == "string":
            raise Refused(
                f"its input {name} is text, which runs only on TensorFlow: save the model without"
                " its layers for text"
            )
        readers = list(_readers(model, name))
        table = next((each for each in readers if each["class_name"] in _IDS), None)
        ids = int(table["config"][_IDS[table["class_name"]]]) if table else None
        masking = any(each["class_name"] == "Masking" for each in readers)
        bins: list[float] = []
        for each in readers:
            if each["class_name"] == "Discretization":
                bins += each["config"].get("bin_boundaries") or ()
        yield Input(
            name=name,
            shape=tuple(config["batch_shape"][1:]),
            dtype="float32" if dtype in ("float16", "bfloat16") else dtype,
            ids=ids,
            padding=_padding_of(readers, ids),
            features=masking or (ids is None and len(config["batch_shape"]) > 2),
            bins=tuple(bins),
            pixels=len(config["batch_shape"]) == 4 and scales,
        )


def _divides_pixels(layer: Config) -> bool:
    """Whether it is a Rescaling of pixels, by 1/255 or 1/127.5."""
    scale = layer["config"].get("scale")
    is_scale = isinstance(scale, int | float) and 0 < scale <= _LARGEST_SCALE
    return layer["class_name"] == "Rescaling" and is_scale


def _input_names(model: Config) -> list[str]:
    """The names of a model's input layers, in the order of Keras' `model.inputs`."""
    if "input_layers" in model:
        return list(_tensors(model["input_layers"]).values())
    first = model["layers"][:1]
    return [layer["config"]["name"] for layer in first if layer["class_name"] == "InputLayer"]


def _outputs(model: Config) -> Iterator[str]:
    """The key of each output in a dict of outputs, else the name of its layer."""
    if "output_layers" not in model:
        yield str(model["layers"][-1]["config"]["name"])
        return
    tensors = _tensors(model["output_layers"])
    layers = Counter(tensors.values())
    for key, layer in tensors.items():
        number = key.rpartition(".")[2]
        if not number.isdigit():
            yield key
        else:
            yield layer if layers[layer] == 1 else f"{layer}_{number}"


def _tensors(value: Any, key: str = "") -> dict[str, str]:
    """Place of each tensor in a nested structure → name of its layer. Dicts are in the order of
    their keys, as in Keras. A tensor is [name of its layer, number of the call, number of the
    layer's output].
    """
    if isinstance(value, list) and len(value) == 3 and isinstance(value[0], str):
        return {key or "0": value[0]}
    if isinstance(value, dict) and "class_name" in value:  # a tuple is {"class_name": "__tuple__"}
        value = value["items"]
    parts = sorted(value.items()) if isinstance(value, dict) else enumerate(value)
    found: dict[str, str] = {}
    for name, part in parts:
        found |= _tensors(part, f"{key}.{name}" if key else str(name))
    return found


def _readers(model: Config, name: str) -> Iterator[Document]:
    """The layers that read an input, such as an Embedding. They may be in a model within the
    model.
    """
    for number, layer in enumerate(model["layers"]):
        if "input_layers" in model:
            # The names of the layers whose outputs a layer reads, in order.
            described = keras_config.objects(layer.get("inbound_nodes"))
            places = [
                each["config"]["keras_history"][0]
                for each in described
                if each["class_name"] == "__keras_tensor__"
            ]
        else:
            places = [model["layers"][number - 1]["config"]["name"]] if number else []
        if name not in places:
            continue
        if "layers" in layer["config"]:
            inner = _input_names(layer["config"])
            yield from _readers(layer["config"], inner[places.index(name)])
        else:
            yield dict(layer)


def _padding_of(readers: Iterable[Config], ids: int | None) -> float | None:
    """The value that means padding in an input with these readers; None: there is none."""
    for value in map(_padding, readers):
        if _is_number(value) and (ids is None or 0 <= value < ids):
            return float(value)
    return None


def _padding(layer: Config) -> Any:
    """The value that a layer takes for padding; None: there is none."""
    if layer["class_name"] in _COMPARISONS:
        compared = [each for node in layer["inbound_nodes"] for each in node["args"]]
        return next(filter(_is_number, compared), None)
    if layer["class_name"] == "Masking":
        return layer["config"].get("mask_value", 0.0)
    to_bool = layer["class_name"] == "Cast" and layer["config"].get("dtype") == "bool"
    return 0 if to_bool or layer["config"].get("mask_zero") else None


def newer(version: str, installed: str) -> bool:
    """Return whether a version of Keras is of a later minor release than another. False if one is
    not a version.
    """
    try:
        return Version(version).release[:2] > Version(installed).release[:2]
    except InvalidVersion:
        return False
