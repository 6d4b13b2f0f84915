"""Runs in the environment of a SUT or reference: its answers to the inputs of some `.keras` files,
and the evidence of a SUT. See tests/sut/test_keras_file.py.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np

from scenarios.worker.watching import evidence
from sut.contract import Batch, Workload
from sut.registry import SUTS, load_module


def permuted(spec: dict[str, Any], workload: Workload, batch: Batch) -> Batch:
    """The answers to inputs in another order."""
    sut = load_module(spec["sut"], "keras_file").load(workload)
    return sut.to_host(sut.predict({name: np.roll(rows, 1, 0) for name, rows in batch.items()}))


def zeroed(spec: dict[str, Any], workload: Workload, batch: Batch) -> Batch:
    """The answers of a model whose last layer with a matrix has only zeros. OpenVINO compiles the
    weights into its program, so they change before the first answer.
    """
    sut = load_module(spec["sut"], "keras_file").load(workload)
    layers = [each for each in sut.model._flatten_layers() if each._trainable_variables]
    layer = [each for each in layers if len(each.weights[0].shape) > 1][-1]
    layer.set_weights([np.zeros(weight.shape) for weight in layer.weights])
    return sut.to_host(sut.predict(batch))


def unmasked(spec: dict[str, Any], workload: Workload, batch: Batch) -> Batch:
    """The answers of an LSTM that forgets its mask."""
    own = keras.layers.LSTM.call

    def call(self: Any, sequences: Any, initial_state: Any = None, mask: Any = None, **more: Any):
        return own(self, sequences, initial_state=initial_state, mask=None, **more)

    keras.layers.LSTM.call = call
    try:
        sut = load_module(spec["sut"], "keras_file").load(workload)
        return sut.to_host(sut.predict(batch))
    finally:
        keras.layers.LSTM.call = own


BROKEN = {"permuted": permuted, "zeroed": zeroed, "unmasked": unmasked}


def main(specification: Path) -> None:
    for spec in json.loads(specification.read_text()):
        answers_of(spec)


def answers_of(spec: dict[str, Any]) -> None:
    workload = Workload(**{**spec["workload"], "checkpoint": Path(spec["workload"]["checkpoint"])})
    sut = load_module(spec["sut"], "keras_file").load(workload)
    with np.load(spec["inputs"]) as file:
        batch = sut.prepare(dict(file))
    answers = sut.to_host(sut.predict(batch))
    out = Path(spec["out"])
    with out.open("wb") as file:
        np.savez(file, allow_pickle=False, **answers)
    seen = [dataclasses.asdict(evidence.watch(sut, [batch] * number)) for number in (1, 2)]
    out.with_suffix(".json").write_text(json.dumps(seen))
    for name, change in BROKEN.items() if spec["sut"] in SUTS else ():
        with out.with_name(f"{out.stem}-{name}.npz").open("wb") as file:
            np.savez(file, allow_pickle=False, **change(spec, workload, batch))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
