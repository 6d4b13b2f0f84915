"""Computes `.keras` files on the backend of this process.

The job has the `folders` of the cases (`gauntlet`), `precision`, and `jit_compile`. The answers of
a case are its outputs, called `0`, `1` and so on. With `layers` in the job, they are also the
values of each layer (`sut.reference.keras_layers`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import keras

from sut.conformance import cases
from sut.conformance.cases import Arrays
from sut.conformance.gauntlet import value_of
from sut.contract import Workload
from sut.reference import keras_layers, keras_model

_KEPT = 50  # models, before their memory is freed, which takes a tenth of a second


def main(job: Mapping[str, Any], out: Path) -> None:
    """Compute the cases."""
    workload = Workload(
        model="keras_file",
        task="predict",
        config={},
        checkpoint=out,
        precision=job["precision"],
        batch_size=1,
        device="cpu",
        backend=keras.backend.backend(),
        execution="xla" if job["jit_compile"] else "graph",
    )
    cases.compute(_configured(job["folders"], workload), out, partial(_answers, job, workload))


def _configured(folders: Iterable[str], workload: Workload) -> Iterator[Path]:
    """Yield the folders, each with Keras as it was at the beginning."""
    for number, folder in enumerate(folders):
        if number % _KEPT == 0:
            keras.utils.clear_session()
        keras_model.configure(workload)
        yield Path(folder)


def _answers(job: Mapping[str, Any], workload: Workload, folder: Path) -> Arrays:
    given = cases.arrays(folder / "inputs.npz")
    stored = folder / "object.json"
    if stored.exists():
        made = keras.saving.deserialize_keras_object(json.loads(stored.read_text("utf-8")))
        return {"0": value_of(made, given["true"], given["predicted"])}
    model, _ = keras_model.load(replace(workload, checkpoint=folder))
    tensors = {str(number): each for number, each in enumerate(model.outputs)}
    if job.get("layers"):
        tensors |= dict(keras_layers.tensors(keras_model.flat(model.inputs, model.outputs)))
    every = keras.Model(model.inputs, list(tensors.values()))
    every.compile(optimizer=None, loss=None, metrics=None, jit_compile=job["jit_compile"])
    values = every.predict_on_batch(keras_model.given(every, given))
    arrays = map(keras.ops.convert_to_numpy, keras.tree.flatten(values))
    return dict(zip(tensors, arrays, strict=True))
