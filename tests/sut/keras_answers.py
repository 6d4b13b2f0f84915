"""Runs in the environment of a SUT or reference: its answers to the inputs of some `.keras` files,
and the evidence of a SUT. See tests/sut/test_keras_file.py.
"""

import dataclasses
import sys
from pathlib import Path

import keras
import numpy as np

from formats.writing import write_json
from scenarios.worker.watching import evidence
from sut.registry import SUTS, load_module
from tests.support.files import read_json
from tests.sut.one_mistake import workload_of


def permuted(spec, workload, batch):
    """The answers to inputs in another order."""
    sut = load_module(spec["sut"], "keras_file").load(workload)
    return sut.to_host(sut.predict({name: np.roll(rows, 1, 0) for name, rows in batch.items()}))


def zeroed(spec, workload, batch):
    """The answers of a model whose last layer with a matrix has only zeros. OpenVINO compiles the
    weights into its program, so they change before the first answer.
    """
    sut = load_module(spec["sut"], "keras_file").load(workload)
    layers = [each for each in sut.model._flatten_layers() if each._trainable_variables]
    layer = [each for each in layers if len(each.weights[0].shape) > 1][-1]
    layer.set_weights([np.zeros(weight.shape) for weight in layer.weights])
    return sut.to_host(sut.predict(batch))


def unmasked(spec, workload, batch):
    """The answers of an LSTM that forgets its mask."""
    own = keras.layers.LSTM.call

    def call(self, sequences, initial_state=None, mask=None, **more):
        return own(self, sequences, initial_state=initial_state, mask=None, **more)

    keras.layers.LSTM.call = call
    try:
        sut = load_module(spec["sut"], "keras_file").load(workload)
        return sut.to_host(sut.predict(batch))
    finally:
        keras.layers.LSTM.call = own


BROKEN = {"permuted": permuted, "zeroed": zeroed, "unmasked": unmasked}


def main(specification):
    for spec in read_json(specification):
        answers_of(spec)


def answers_of(spec):
    workload = workload_of(spec["workload"])
    sut = load_module(spec["sut"], "keras_file").load(workload)
    with np.load(spec["inputs"]) as file:
        batch = sut.prepare(dict(file))
    answers = sut.to_host(sut.predict(batch))
    out = Path(spec["out"])
    with out.open("wb") as file:
        np.savez(file, allow_pickle=False, **answers)
    seen = [dataclasses.asdict(evidence.watch(sut, [batch] * number)) for number in (1, 2)]
    write_json(out.with_suffix(".json"), seen)
    for name, change in BROKEN.items() if spec["sut"] in SUTS else ():
        with out.with_name(f"{out.stem}-{name}.npz").open("wb") as file:
            np.savez(file, allow_pickle=False, **change(spec, workload, batch))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
