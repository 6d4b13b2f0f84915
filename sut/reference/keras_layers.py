"""Writes the values of every layer of a `.keras` file on the CPU, if two references differ:
`python -m sut.reference.keras_layers JOB PRECISION INPUTS OUT`.

JOB is the job.json of a reference, and INPUTS an .npz with some inputs. OUT is an .npz whose arrays
are called `number|name|class|shapes of the inputs|shapes of the outputs`, in the order of layers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from sut.contract import Workload
from sut.reference import keras_model


def main(arguments: Sequence[str]) -> None:
    """Write the arrays."""
    job, precision, inputs, out = arguments
    fields = json.loads(Path(job).read_text(encoding="utf-8"))["workload"]
    here = {"checkpoint": Path(fields["checkpoint"]), "precision": precision, "device": "cpu"}
    workload = Workload(**{**fields, **here})
    keras_model.configure(workload)
    loaded, _ = keras_model.load(workload)
    model = keras_model.flat(loaded)
    with np.load(inputs) as file:
        batch = keras_model.given(model, dict(file))
    tensors = dict(_tensors(model))
    every = keras.Model(model.inputs, list(tensors.values()))
    every.compile(optimizer=None, loss=None, metrics=None, jit_compile=False)
    values = map(keras.ops.convert_to_numpy, every.predict_on_batch(batch))
    np.savez(out, allow_pickle=False, **dict(zip(tensors, values, strict=True)))


def _tensors(model: Any) -> Iterator[tuple[str, Any]]:
    for number, node in enumerate(keras_model.nodes(model)):
        layer = node.operation
        given, made = (
            " and ".join(str(list(each.shape[1:])) for each in tensors)
            for tensors in (node.input_tensors, node.output_tensors)
        )
        for place, tensor in enumerate(node.output_tensors):
            name = f"{number}.{place}|{layer.name}|{type(layer).__name__}|{given}|{made}"
            if given:  # the model's own inputs are computed from nothing
                yield name, tensor


if __name__ == "__main__":
    main(sys.argv[1:])
