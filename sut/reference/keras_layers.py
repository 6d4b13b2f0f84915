"""Writes the values of every layer of a `.keras` file on the CPU, if two references differ:
`python -m sut.reference.keras_layers JOB PRECISION INPUTS OUT`.

JOB is the job.json of a reference, and INPUTS an .npz with some inputs. OUT is an .npz whose arrays
are called `number|name|class|shapes of the inputs|shapes of the outputs`, in the order of layers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from formats.job import read_job
from sut.reference import keras_model


def main(arguments: Sequence[str]) -> None:
    """Write the arrays."""
    job, precision, inputs, out = arguments
    workload = replace(read_job(Path(job)).workload, precision=precision, device="cpu")
    keras_model.configure(workload)
    loaded, _ = keras_model.load(workload)
    model = keras_model.flat(loaded.inputs, loaded.outputs)
    with np.load(inputs) as file:
        batch = keras_model.given(model, dict(file))
    found = dict(tensors(model))
    every = keras_model.flat(model.inputs, found.values())
    values = map(keras.ops.convert_to_numpy, every.predict_on_batch(batch))
    np.savez(out, allow_pickle=False, **dict(zip(found, values, strict=True)))


def tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, symbolic tensor) of each layer of a flat model. The name is that of its array
    (see above).
    """
    for number, node in enumerate(keras_model.nodes(model)):
        layer = node.operation
        given, made = (
            " and ".join(str(list(each.shape[1:])) for each in each_side)
            for each_side in (node.input_tensors, node.output_tensors)
        )
        for place, tensor in enumerate(node.output_tensors):
            name = f"{number}.{place}|{layer.name}|{type(layer).__name__}|{given}|{made}"
            if given:  # the model's own inputs are computed from nothing
                yield name, tensor


if __name__ == "__main__":
    main(sys.argv[1:])
