"""Computes `.keras` files on the backend of this process:
`python -m sut.conformance.keras_files JOB`.

JOB is a JSON file: the folders of the cases (`gauntlet`), `precision`, and `jit_compile`. For each
folder, `out` gets an .npz with the outputs as `0`, `1` and so on, or a .txt with the words of a
refusal. With `layers`, the .npz also has the value of each layer (`sut.reference.keras_layers`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from sut.conformance.gauntlet import value_of
from sut.contract import Workload
from sut.evidence import causes
from sut.reference import keras_layers, keras_model

_KEPT = 50  # models, before their memory is freed


def main(path: Path) -> None:
    """Compute the cases of the job at this path."""
    job = json.loads(path.read_text(encoding="utf-8"))
    for number, folder in enumerate(map(Path, job["folders"])):
        workload = Workload(
            model=folder.name,
            task="predict",
            config={},
            checkpoint=folder,
            precision=job["precision"],
            batch_size=1,
            device="cpu",
            backend=keras.backend.backend(),
            execution="xla" if job["jit_compile"] else "graph",
        )
        made, refusal = (Path(job["out"]) / f"{folder.name}{end}" for end in (".npz", ".txt"))
        if made.exists() or refusal.exists():
            continue  # from before this process was started again
        refusal.write_text("the process ended in it", encoding="utf-8")
        keras_model.configure(workload)
        try:
            found = _computed(workload, job)
        except Exception as e:  # noqa: BLE001  whatever Keras or its backend raises
            refusal.write_text(causes.words(e), encoding="utf-8")
            continue
        np.savez(made, allow_pickle=False, **found)
        refusal.unlink()
        if number % _KEPT == 0:  # it takes a tenth of a second
            keras.utils.clear_session()


def _computed(workload: Workload, job: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The outputs of a case, and the values of its layers if the job wants them."""
    with np.load(workload.checkpoint / "inputs.npz") as file:
        given = dict(file)
    stored = workload.checkpoint / "object.json"
    if stored.exists():
        made = keras.saving.deserialize_keras_object(json.loads(stored.read_text("utf-8")))
        return {"0": value_of(made, given["true"], given["predicted"])}
    model, _ = keras_model.load(workload)
    tensors = {str(number): each for number, each in enumerate(model.outputs)}
    if job.get("layers"):
        tensors |= dict(keras_layers.tensors(keras_model.flat(model.inputs, model.outputs)))
    every = keras.Model(model.inputs, list(tensors.values()))
    every.compile(optimizer=None, loss=None, metrics=None, jit_compile=job["jit_compile"])
    values = every.predict_on_batch(keras_model.given(every, given))
    arrays = map(keras.ops.convert_to_numpy, keras.tree.flatten(values))
    return dict(zip(tensors, arrays, strict=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
