"""The inputs of a user's own model in a `.keras` file: the arrays that the file specifies, by the
names of their input layers.

Random inputs are float32 from 0 to 1, pixels from 0 to 255, and ids below the size of the table in
which a layer looks them up. If a layer makes a mask of them, they end in padding of seeded lengths.
If a layer sorts them into bins, they are of all bins.
"""

from __future__ import annotations

import math
import re
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from blake3 import blake3

from compliance import rules
from compliance.logs.files import unpacked_bytes
from formats import bounds
from harness.errors import Refused, UsageError, about
from harness.inputs import depth_limits, keras_file, keras_labels, pictures
from harness.inputs.architectures import Architecture, Arrays, Counted, Noted, UserFile
from harness.inputs.depth_limits import Limits
from harness.inputs.keras_file import Input
from harness.inputs.keras_labels import Label
from harness.inputs.models import Model, ModelFile, Size
from sut.contract import Batch

NAME = "keras_file"
TRAINED = "trained/"
"""The beginning of the names of weights that a training changes."""
OFFICIAL = "3d-unet-99"
"""The official benchmark whose counts and durations the longer modes take. Its data set is the
smallest, because an unknown model may have large inputs.
"""
_BATCH_SIZE = 32
_PRECISIONS = ("float32", "tf32")
# The loosest limits of losses, which compliance/training/limits.toml has too.
_LOSS_TOLERANCE = {
    "float32": {"first_loss_error": 1e-3, "loss_error": 5e-2, "update_error": 5e-2},
    "tf32": {"first_loss_error": 2.5e-2, "loss_error": 2.5e-1, "update_error": 2.5e-1},
}
# See `Model.fit`. The optimizer is the file's own.
_FIT: dict[str, Any] = {"trained": [TRAINED], "optimizer": {}, "tolerance": _LOSS_TOLERANCE}
# The limit of loss_error over the distance that some roundings of the weights cause. If that
# distance times the smaller factor exceeds the loosest limit, nothing is judged.
_OF_ROUNDING = 10.0
_LEAST_OF_ROUNDING = 3.0
_LEAST_LOSS_ERROR = 1e-2  # five times as much as the farthest honest SUT of a small CNN
_LONGEST_NAME = 40
_SUFFIXES = (".npz", ".npy")
_NO_ARRAYS = "{path}: is no array file of numpy ({why}): write it with numpy.save or numpy.savez"


def model(path: Path, custom: Path | None, trains: bool = False) -> Model:
    """The model of a file. Raises UsageError if it cannot be measured.

    Args:
        custom: the file with the code of its custom layers; None: it has none.
        trains: whether it is to be trained.
    """
    description = keras_file.read(path, custom is not None, trains)
    digest = _digest(path, path.stat().st_size, path.stat().st_mtime_ns)
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", path.stem)[:_LONGEST_NAME]
    name = f"{stem}-{digest[:8]}"
    code = _code(custom) if custom else None
    # Prefixed, so that no output is mistaken for the tokens of a language model.
    keys = [f"output_{each}" for each in description.outputs]
    labels = _labels(path, description)
    size = Size(
        name="user",
        precision="float32",
        batch_size={"Offline": _BATCH_SIZE, "Fit": _BATCH_SIZE},
        config={
            "num_hidden_layers": description.depth,
            "inputs": [each.name for each in description.inputs],
            "outputs": keys,
            **({"labels": labels} if labels else {}),
        },
        tensors=(),
        inputs={
            "arrays": description.inputs,
            "losses": description.losses,
        },
        stored_bytes=description.weight_bytes,
    )
    return Model(
        name=name,
        architecture=NAME,
        task="predict",
        tasks=("predict",),
        benchmark={rules.CURRENT: OFFICIAL},
        answer_keys=tuple(keys),
        score="arrays",
        tolerance={precision: {} for precision in _PRECISIONS},
        sizes={"user": size},
        fit=_FIT if description.losses else {},
        file=ModelFile(
            path=path,
            digest=digest,
            version=description.version,
            code=code,
            notes=tuple(_notes(path, description)),
        ),
    )


def _labels(path: Path, description: keras_file.Description) -> list[str | None]:
    """The name of each output's labels. Raises UsageError if an input has the name of one."""
    if not description.losses:
        return []
    for each in description.inputs:
        if each.name.startswith(keras_labels.PREFIX):
            raise UsageError(
                f"--model {path}: its input is called {each.name}, and names that begin with"
                f" {keras_labels.PREFIX} are those of labels: save the model with another name of"
                " the input"
            )
    return keras_labels.names(description.outputs, description.losses)


def _code(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise UsageError(
            f"--custom {path}: cannot be read ({e.strerror}); give one .py file"
        ) from None


@cache
def _digest(path: Path, size: int, modified_ns: int) -> str:
    """The BLAKE3 of the file. Size and time of a file that was changed since are others."""
    return blake3(max_threads=blake3.AUTO).update_mmap(path).hexdigest()


def _notes(path: Path, description: keras_file.Description) -> list[str]:
    notes = [f"model of {path}, saved by Keras {description.version}"]
    others = [name for name in description.policies if name != "float32"]
    if others:
        notes.append(
            f"the layers saved in {' and '.join(others)} run in the precision of the cell, as"
            " all others do"
        )
    if description.frozen:
        notes.append(
            f"the file keeps {' and '.join(description.frozen)}, so Keras does not compile it after"
            " load_model, unless model.compile(jit_compile='auto') is called; here each SUT"
            " compiles as its name says"
        )
    if description.losses:
        notes.append("trained by its own losses and optimizer, without its metrics")
    if description.losses and description.drops_out:
        notes.append("its rates of dropout are 0, because each backend draws other random numbers")
    return [
        *notes,
        (
            "the limits of accuracy were not measured for this model: they follow from the"
            " precision and the number of layers"
        ),
    ]


def _shape(shape: tuple[int | None, ...]) -> str:
    return "[" + ", ".join("?" if side is None else str(side) for side in shape) + "]"


def _specified(size: Size) -> tuple[Input, ...]:
    return tuple(size.inputs["arrays"])


def _path(model: Model) -> Path:
    assert model.file
    return model.file.path


def check(model: Model, size: Size) -> None:
    """Raises UsageError if random inputs cannot be drawn."""
    for each in _specified(size):
        if None in each.shape:
            raise UsageError(
                f"--model {_path(model)}: its input {each.name} is"
                f" {_shape(each.shape)}: give its length with --seq-len N, or your own"
                " data with --dataset FILE"
            )
        if each.ids is None and np.dtype(each.dtype).kind in "iu" and each.dtype != "uint8":
            raise UsageError(
                f"--model {_path(model)}: its input {each.name} holds whole numbers, and no"
                " Embedding that reads them says how many there are: give your own data with"
                " --dataset FILE"
            )


def _with_length(model: Model, size: Size, length: int) -> Size:
    if length < 1:
        raise UsageError(f"--seq-len {length}: at least 1")
    specified = _specified(size)
    if not any(None in each.shape for each in specified):
        raise UsageError(
            f"--seq-len {length}: the inputs of {_path(model)} have fixed shapes: leave it out"
        )
    arrays = []
    for each in specified:
        shape = [length if side is None else side for side in each.shape]
        arrays.append(replace(each, shape=tuple(shape)))
    return replace(size, inputs={**size.inputs, "arrays": tuple(arrays), "sequence_length": length})


def _synthetic(size: Size, samples: int, stream: int) -> Arrays:
    """Random inputs, of the shapes and dtypes that the file specifies."""
    arrays = {}
    for each in _specified(size):
        rng = np.random.default_rng([stream, *each.name.encode()])
        sides = [int(side) for side in each.shape if side is not None]
        arrays[each.name] = _padded(_drawn(rng, each, (samples, *sides)), each, stream)
    return arrays


def _padded(array: np.ndarray, given: Input, stream: int) -> np.ndarray:
    """The rows with padding at their ends. All inputs of a sample end at the same share of their
    length. The first sample is whole, and every sample has one place that is no padding.
    """
    axis = given.features + 1
    if given.padding is None or array.ndim <= axis:
        return array
    shares = np.random.default_rng([stream, len(array)]).random(len(array))
    shares[:1] = 1.0
    length = array.shape[-axis]
    lengths = np.maximum(1, np.ceil(length * shares))
    ends = np.arange(length) >= lengths.reshape(-1, *(1,) * (array.ndim - axis))
    places = ends[..., None] if given.features else ends
    return np.where(places, given.padding, array).astype(array.dtype)


def _drawn(rng: np.random.Generator, given: Input, shape: tuple[int, ...]) -> np.ndarray:
    dtype = np.dtype(given.dtype)
    if given.ids is not None:
        ids = np.arange(given.ids)
        if given.padding is not None and len(ids) > 1:
            ids = ids[ids != given.padding]
        return rng.choice(ids, size=shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(2, size=shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(256, size=shape, dtype=dtype)
    bins = given.bins
    if bins:
        low = min(bins)
        high = max(bins)
        margin = (high - low) / len(bins) or 1.0
        return rng.uniform(low - margin, high + margin, shape).astype(dtype)
    if given.pixels:
        return rng.integers(256, size=shape).astype(dtype)
    return rng.random(shape, np.float32).astype(dtype)


def _synthetic_like(arrays: Arrays, size: Size, stream: int) -> Counted:
    """Rows with the padding of other rows, and with other values of the same array in all other
    places. So padding stays padding, and ids stay in their table. Without a layer that makes a mask
    the number 0 is padding.
    """
    padding = {each.name: each.padding or 0 for each in _specified(size)}
    count = len(next(iter(arrays.values())))
    rng = np.random.default_rng([stream, count])
    rows = rng.integers(count, size=count + 1)
    drawn = {}
    for name, array in arrays.items():
        values = array[rows]
        places = values != padding[name]
        others = array[array != padding[name]]
        if len(others):
            values[places] = others[rng.integers(len(others), size=int(places.sum()))]
        drawn[name] = values
    return drawn, 1


def _count(path: Path) -> int:
    """The number of samples. Of an .npz only the first array is read."""
    if path.is_dir():
        return len(pictures.files(path))
    return len(next(iter(_read_file(path, first=True).values())))


def _read(given: UserFile) -> Noted:
    """The inputs of a user's file or folder, checked against the model's specification."""
    if given.path.is_dir():
        return _pictures(given.model, _specified(given.size), given.path)
    return _read_arrays(given, ())


def _read_arrays(given: UserFile, labels: tuple[Label, ...]) -> Noted:
    """The arrays of a user's file.

    Args:
        labels: those that a training takes too.
    """
    found = _read_file(given.path)
    inputs = _specified(given.size)
    names = [each.name for each in inputs] + [each.name for each in labels]
    if len(names) == len(found) == 1:
        found = {names[0]: next(iter(found.values()))}
    if set(found) != set(names):
        model = given.model.name
        takes = f"a training of {model} takes" if labels else f"the inputs of {model} are"
        ends = [names[0], names[-1]] if labels else names[:1]
        call = ", ".join(f"{name}=..." for name in ends)
        raise Refused(
            f"holds {_listed(found)}, and {takes} {_listed(names)}: write numpy.savez(FILE, {call})"
        )
    arrays = {each.name: _fitted(each, found[each.name]) for each in inputs}
    for label in labels:
        arrays[label.name] = keras_labels.fitted(label, found[label.name])
    counts = {len(array) for array in arrays.values()}
    if len(counts) > 1 or not min(counts):
        raise Refused(
            f"its arrays have {_listed(map(str, sorted(counts)))} samples; all need the same"
            " number, and one at least"
        )
    return arrays, (f"{given.path.name}: {min(counts)} samples of {_listed(arrays)}",)


def _listed(names: Any) -> str:
    return ", ".join(names)


def _read_file(path: Path, first: bool = False) -> Arrays:
    """The arrays of an .npz, or the array of an .npy under an empty name. Pickled objects are
    refused.

    Args:
        first: whether the first array is enough.
    """
    if path.suffix.lower() not in _SUFFIXES or not path.is_file():
        why = "there is no such file" if not path.exists() else "is another kind of file"
        raise UsageError(
            f"--dataset {path}: {why}; give an {' or '.join(_SUFFIXES)} file, or a folder of"
            " pictures"
        )
    try:
        size_bytes = path.stat().st_size
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                size_bytes = unpacked_bytes(archive)
        bounds.check(f"--dataset {path}", size_bytes, bounds.ARRAYS)
        content = np.load(path, allow_pickle=False, mmap_mode="r" if first else None)
        if isinstance(content, np.ndarray):
            found = {"": content}
        else:
            with content:
                names = content.files[:1] if first else content.files
                found = {name: content[name] for name in names}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as e:
        raise UsageError("--dataset " + _NO_ARRAYS.format(path=path, why=e)) from None
    if not found or not all(array.ndim for array in found.values()):
        raise UsageError("--dataset " + _NO_ARRAYS.format(path=path, why="it has no samples"))
    return found


def _fitted(given: Input, array: np.ndarray) -> np.ndarray:
    """The array in the dtype of its input. Raises UsageError if its shape or its values do not
    fit.
    """
    name = given.name
    shape = given.shape
    same = array.ndim == len(shape) + 1 and all(
        side in (None, found) for side, found in zip(shape, array.shape[1:], strict=True)
    )
    if not same:
        raise Refused(
            f"{name or 'its array'} has shape {list(array.shape)}, and the model takes [samples,"
            f" {_shape(shape)[1:]}"
        )
    dtype = np.dtype(given.dtype)
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and dtype.kind in "biu"):
        raise Refused(f"{name} is {array.dtype}, and the model takes {dtype}: convert it")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise Refused(f"{name} has values that are NaN or infinite")
    ids = given.ids
    if ids is not None and array.size and not 0 <= array.min() <= array.max() < ids:
        raise Refused(
            f"{name} has values from {array.min()} to {array.max()}, and its Embedding takes 0 to"
            f" {ids - 1}"
        )
    return array.astype(dtype)


def _pictures(model: Model, given: tuple[Input, ...], path: Path) -> Noted:
    height, width, channels = given[0].shape if len(given[0].shape) == 3 else (None, None, None)
    if len(given) != 1 or height is None or width is None or channels not in (1, 3):
        raise Refused(
            "a folder of pictures is for a model with one input [height, width, 3 or 1], and"
            f" {model.name} has another: give an .npz file"
        )
    images = pictures.stretched(path, height, width, channels)
    note = (
        f"{path.name}: {len(images)} pictures, resized to {height} x {width}, values from 0 to"
        " 255, as keras.utils.image_dataset_from_directory reads them"
    )
    return {given[0].name: images.astype(given[0].dtype)}, (note,)


def limits(size: Size, precision: str, reference: Batch) -> Limits:
    """An `Architecture.limits`; see `depth_limits`."""
    layers = size.config["num_hidden_layers"]
    return depth_limits.limits(size.config["outputs"], layers, precision, reference)


def first_inputs(size: Size, dataset: Path | None, samples: int) -> Arrays:
    """Some inputs without labels: random ones, or those at the beginning of a user's file."""
    if dataset is None:
        return _synthetic(size, samples, 0)
    found = _read_file(dataset)
    arrays = {}
    with about(f"--dataset {dataset}"):
        for each in _specified(size):
            if each.name not in found:
                raise Refused(
                    f"holds {_listed(found)}, and no {each.name}: a training takes an .npz file"
                    " with inputs and labels"
                )
            arrays[each.name] = _fitted(each, found[each.name])[:samples]
    return arrays


def _check_trained(model: Model, size: Size) -> None:
    """Raises UsageError if random inputs or labels cannot be drawn."""
    check(model, size)
    for name, loss in zip(size.config["labels"], size.inputs["losses"], strict=True):
        if loss and keras_labels.kind_of(loss) == keras_labels.UNKNOWN:
            raise UsageError(
                f"--model {_path(model)}: its loss is {loss}, for which no labels can be drawn:"
                f" give the inputs and {name} with --dataset FILE.npz"
            )


def _label_arrays(size: Size) -> tuple[Label, ...]:
    return tuple(size.inputs["labels"])


def _synthetic_labelled(size: Size, samples: int, stream: int) -> Arrays:
    labels = {each.name: keras_labels.drawn(each, samples, stream) for each in _label_arrays(size)}
    return _synthetic(size, samples, stream) | labels


def loss_limits(size: Size, precision: str, reference: Batch) -> Limits:
    """(The limits of the losses, why the reference cannot judge losses or an empty text).

    Rounding errors grow while a model is trained, in some models fast. So the reference also trains
    the model with weights that are changed by some roundings. The limit follows from the distance
    between its two rows of losses.

    Args:
        reference: the losses of the reference: `loss`, and `rounded` with changed weights.
    """
    losses = reference["loss"]
    if size.inputs["random"]:
        return {}, (
            "its layers draw random numbers while it is trained, and each backend draws other"
            " ones, so its losses are not compared with those of another backend"
        )
    if not np.isfinite(losses).all():
        return {}, (
            "the losses of the reference are not all finite: give real inputs and labels with"
            " --dataset"
        )
    limits = dict(_LOSS_TOLERANCE[precision])
    deviation = float(losses.std())
    ratio = float(np.abs(losses).max()) / deviation if deviation else math.inf
    if (
        depth_limits.ROUNDINGS[precision] * depth_limits.ROUNDOFF[precision] * ratio
        > limits["first_loss_error"]
    ):
        return {}, (
            f"the losses hardly differ from step to step (the largest is {ratio:.2g} standard"
            " deviations), so rounding alone could exceed any limit: give real inputs and"
            " labels with --dataset"
        )
    if precision != "float32":
        return limits, ""
    moved = float(np.abs(reference["rounded"] - losses).max() / losses.std())
    if _LEAST_OF_ROUNDING * moved > limits["loss_error"]:
        return {}, (
            f"the rounding of the weights alone moves the losses by {moved:.2g} standard"
            " deviations, so they cannot be compared: give real inputs and labels with"
            " --dataset, or compile the model with a smaller learning rate"
        )
    usual = max(_LEAST_LOSS_ERROR, _OF_ROUNDING * moved)
    limits["loss_error"] = min(limits["loss_error"], float(f"{usual:.3g}"))
    return limits, ""


_TRAINED = Architecture(
    synthetic=_synthetic_labelled,
    read=lambda given: _read_arrays(given, _label_arrays(given.size)),
    with_sequence_length=_with_length,
    check=_check_trained,
    limits=loss_limits,
)

ARCHITECTURE = Architecture(
    synthetic=_synthetic,
    synthetic_like=_synthetic_like,
    read=_read,
    count=_count,
    with_sequence_length=_with_length,
    check=check,
    limits=limits,
    trained=_TRAINED,
)
