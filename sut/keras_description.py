"""Describes the model of a `.keras` file that is to be trained: `python -m sut.keras_description
WORKLOAD INPUTS OUT`.

WORKLOAD is the JSON of a Workload, and INPUTS an .npz with some inputs. It writes to OUT, as JSON:

    outputs   the shape of each output, without the axis of samples
    weights   name, shape, and whether it is trained, of each weight
    random    whether answers to the same inputs differ while training
    lost      class, argument and value of each argument of a loss that the file does not hold
    refused   why Keras cannot load the file; an empty text: it can
"""

from __future__ import annotations

import inspect
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from sut import keras_archive, keras_config
from sut.contract import Unsupported, Workload

_CALLS = 3
_SAME = 1e-3  # of the largest value; sums in another order differ by less


def describe(workload: Workload, inputs: Path) -> dict[str, Any]:
    """Return the description of the model. Raises Unsupported."""
    model = keras_archive.load_compiled(workload)
    with np.load(inputs) as file:
        batch = keras_archive.inputs(model, workload, dict(file))
    first, *others = (_answers(model, batch) for _ in range(_CALLS))
    trained = {id(each) for each in model.trainable_weights}
    return {
        "outputs": [array.shape[1:] for array in first],
        "weights": [(each.path, tuple(each.shape), id(each) in trained) for each in model.weights],
        "random": any(any(map(_differ, first, other)) for other in others),
        "lost": list(_lost(model, _stored(workload.checkpoint / keras_archive.MODEL))),
        "refused": "",
    }


def _stored(path: Path) -> dict[str, Mapping[str, Any]]:
    """Class of a loss → its configuration in the file."""
    with zipfile.ZipFile(path) as file:
        described = json.loads(file.read("config.json"))
    losses = keras_config.objects(described["compile_config"]["loss"])
    return {each["class_name"]: each.get("config") or {} for each in losses}


def _lost(model: Any, stored: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield (class, argument, value in use) of each argument of the model's losses that neither
    the loss' own configuration nor the file has. Keras 3.15.1 leaves out Huber's delta.
    """
    for loss in keras.tree.flatten(model.loss):
        if not isinstance(loss, keras.losses.Loss):
            continue
        name = type(loss).__name__
        held = {"dtype", *loss.get_config(), *stored.get(name, {})}
        for each in inspect.signature(type(loss)).parameters.values():
            if each.name not in held and each.default is not each.empty:
                value = each.default
                yield name, each.name, f"{value:g}" if isinstance(value, float) else str(value)


def _answers(model: Any, batch: Any) -> list[np.ndarray]:
    outputs = keras.tree.flatten(model(batch, training=True))
    return [keras.ops.convert_to_numpy(each) for each in outputs]


def _differ(one: np.ndarray, other: np.ndarray) -> bool:
    most = _SAME * float(np.abs(one).max(initial=0.0))
    return not np.allclose(one, other, rtol=0.0, atol=most, equal_nan=True)


def main(arguments: Sequence[str]) -> None:
    """Write the description."""
    given, inputs, out = arguments
    fields = json.loads(given)
    workload = Workload(**{**fields, "checkpoint": Path(fields["checkpoint"])})
    try:
        description = describe(workload, Path(inputs))
    except Unsupported as e:
        description = {"refused": str(e)}
    Path(out).write_text(json.dumps(description), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
