"""Runs in an environment of Keras 3: saves models with losses, and which arguments of them the
description of each file says it does not hold.

`python -m tests.sut.keras_lost SPEC.json` writes lost.json next to the specification.
"""

import json
import sys
import zipfile
from pathlib import Path

import keras

from formats.writing import write_json
from sut.keras_archive import MODEL
from sut.keras_description import _lost, _stored

LOSSES = {
    "huber": keras.losses.Huber(delta=0.05),
    "huber by name": "huber",
    "cosine": keras.losses.CosineSimilarity(axis=1),
    "focal": keras.losses.BinaryFocalCrossentropy(gamma=5.0, alpha=0.9),
    "tversky": keras.losses.Tversky(alpha=0.9, beta=0.1),
}
LATER = "huber of a Keras that stores delta"


def _saved(folder, loss):
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))
    model.compile(optimizer="sgd", loss=loss)
    path = folder / MODEL
    model.save(path)
    return path


def _with_delta(path):
    """Write delta into the file's description."""
    with zipfile.ZipFile(path) as file:
        content = {name: file.read(name) for name in file.namelist()}
    described = json.loads(content["config.json"])
    described["compile_config"]["loss"]["config"]["delta"] = 0.05
    content["config.json"] = json.dumps(described).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in content.items():
            file.writestr(name, data)


def main(specification):
    lost = {}
    for name, loss in {**LOSSES, LATER: LOSSES["huber"]}.items():
        path = _saved(specification.parent, loss)
        if name == LATER:
            _with_delta(path)
        model = keras.saving.load_model(path)
        lost[name] = list(_lost(model, _stored(path)))
    write_json(specification.parent / "lost.json", lost)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
